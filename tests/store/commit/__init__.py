"""Tests of `streamd/store/commit/`."""
