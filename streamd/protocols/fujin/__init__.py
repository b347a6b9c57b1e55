"""Fujin over QUIC.

`protocol` is one stream, `reader` and `transaction` are what it may be in the middle of, `ping` looks after
connections, `settings` are those of ``[fujin]``.
"""
