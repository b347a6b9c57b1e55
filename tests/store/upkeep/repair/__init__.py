"""Tests of `streamd/store/upkeep/repair/`."""
