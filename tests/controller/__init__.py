"""Tests of `streamd/controller/`."""
