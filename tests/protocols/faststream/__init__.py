"""Tests of `streamd/protocols/faststream/`."""
