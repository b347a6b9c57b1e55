"""The clients' side of the codecs: requests to bytes, and bytes to replies. One module for each protocol."""
