"""Tests of `streamd/cli/bench/`."""
