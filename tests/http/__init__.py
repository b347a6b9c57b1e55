"""Tests of the dashboard, of /metrics and of what says whether the daemon is well."""
