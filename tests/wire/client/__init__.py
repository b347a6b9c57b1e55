"""Tests of `streamd/wire/client/`."""
