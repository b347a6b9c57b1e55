"""Tests of streamctl."""
