"""Rigs for the tests of `streamd/access/`."""
