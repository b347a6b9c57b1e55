"""What every stream protocol stands on: the life of a connection, its order, limits and back-pressure.

A protocol is a `StreamProtocol` (`base`) made by a `StreamFactory` (`factory`), and is given a `Core`. Promises:
requests are begun and answered in order (`order`, `replies`, `slots`); a peer that sends too much or takes nothing
costs a bounded amount and holds up nobody (`holding`, `sending`, `load`); it does only what the rules allow
(`permitted`); at the end what was asked is answered first, for all connections of an endpoint together (`gathering`).
`refusing` closes those that are too many.

Plain sockets live together in a `crowd`: one turn of the reactor serves all that are ready, what they write becomes one
commit, of those who sent one message each even one append (`joint`), and when that is on disk each of them is answered
with one call. To its protocol such a socket is a transport
like Twisted's own. TLS, QUIC and HTTP are not in the crowd and need not be: the promises are the same there.
"""
