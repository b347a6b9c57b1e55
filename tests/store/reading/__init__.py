"""Tests of `streamd/store/reading/`."""
