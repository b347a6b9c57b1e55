"""Tests of `streamd/store/packs/`."""
