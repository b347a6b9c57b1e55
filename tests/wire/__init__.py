"""The codecs, which are pure: bytes in, requests out."""
