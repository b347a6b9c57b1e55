"""Rigs for the tests of `streamd/quic/`."""
