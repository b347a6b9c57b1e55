"""Tests of `streamd/store/upkeep/backup/`."""
