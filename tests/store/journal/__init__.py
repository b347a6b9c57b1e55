"""Tests of `streamd/store/journal/`."""
