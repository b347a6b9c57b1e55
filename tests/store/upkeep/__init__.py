"""Tests of `streamd/store/upkeep/`."""
