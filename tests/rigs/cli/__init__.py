"""Rigs for the tests of `streamd/cli/`."""
