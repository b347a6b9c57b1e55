"""Rigs for the tests of `streamd/client/pravega/`."""
