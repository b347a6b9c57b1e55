"""Tests of `streamd/wire/pravega/`."""
