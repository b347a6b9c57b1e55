"""Tests of reader groups."""
