"""Tests of `streamd/spark/pipeline/`."""
