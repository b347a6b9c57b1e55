"""Rigs for the tests of `streamd/wire/`."""
