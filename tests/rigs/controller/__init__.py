"""Rigs for the tests of `streamd/controller/`: the public client, and a daemon for it."""
