"""Tests of what every stream protocol stands on."""
