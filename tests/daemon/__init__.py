"""Tests of the life of the daemon as a process, and of real daemons as a whole."""
