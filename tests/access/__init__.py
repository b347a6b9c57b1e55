"""Tests of who may do what, and how fast."""
