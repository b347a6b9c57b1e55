"""Rigs for the tests of `streamd/http/`."""
