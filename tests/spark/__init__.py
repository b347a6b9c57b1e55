"""Tests of streamd in Spark."""
