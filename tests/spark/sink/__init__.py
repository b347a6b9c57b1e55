"""Tests of `streamd/spark/sink/`."""
