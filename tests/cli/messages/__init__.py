"""Tests of `streamd/cli/messages/`."""
