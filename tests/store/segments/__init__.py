"""Tests of `streamd/store/segments/`."""
