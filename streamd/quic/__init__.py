"""QUIC for Twisted: a server and a client endpoint on aioquic's sans-IO core, without an event loop of its own.

Each bidirectional stream is a transport like a TCP connection's, with producers both ways and half close; a connection
is an object that streams can be opened on and that can be closed with a code. Nothing here knows of streamd's
store and protocols.

| module | what it is |
|---|---|
| `endpoint`, `client` | where to listen, where to connect to |
| `interfaces`, `settings` | what an application sees, and what it can set |
| `stream` | a stream as a transport |
| `connection` | the library's events to streams and factory; one flush a turn, one timer |
| `listener`, `datagrams` | whose datagram is it, and who may come in; the turn and the socket |
| `sending`, `receiving` | many datagrams with few calls |
| `flow` | the library's connection, held to limits |
| `library` | the only module that imports aioquic |
| `plugin` | the ``quic:`` of endpoint strings |
"""
