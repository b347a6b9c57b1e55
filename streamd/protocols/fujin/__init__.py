"""Fujin over QUIC.

`factory` is an endpoint and `protocol` one stream; `reader` and `transaction` are the states that a stream may be in,
`ping` watches connections, `settings` are those of ``[fujin]``.
"""
