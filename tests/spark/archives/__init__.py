"""Tests of `streamd/spark/archives/`."""
