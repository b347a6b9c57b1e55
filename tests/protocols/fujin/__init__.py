"""Tests of `streamd/protocols/fujin/`."""
