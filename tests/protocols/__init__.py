"""The stream protocols, on a real store in a temporary directory."""
