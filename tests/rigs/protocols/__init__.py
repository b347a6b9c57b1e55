"""Rigs for the tests of `streamd/protocols/`."""
