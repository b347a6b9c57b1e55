"""Drivers: they move the bytes of connections and keep the time, and know nothing of any protocol.

`sockets`  blocking sockets, without threads and without an event loop.
`loop`     asyncio.
`reactor`  Twisted.
`streams`  Twisted, with streams of one QUIC connection for connections.
"""
