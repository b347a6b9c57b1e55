"""Tests of `streamd/protocols/pravega/`."""
