"""Tests of `streamd/spark/read/`."""
