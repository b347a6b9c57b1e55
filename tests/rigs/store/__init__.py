"""Rigs for the tests of `streamd/store/`."""
