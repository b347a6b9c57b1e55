"""Tests of TLS as an endpoint."""
