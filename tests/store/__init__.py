"""The proof of the store."""
