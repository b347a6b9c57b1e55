"""Rigs for the tests of `streamd/spark/`."""
