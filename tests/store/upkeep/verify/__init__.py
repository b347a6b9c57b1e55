"""Tests of `streamd/store/upkeep/verify/`."""
