"""Tests of `streamd/wire/controller/`."""
