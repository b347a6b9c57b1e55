"""What every stream protocol stands on.

Plain sockets live together in a `crowd`: one turn of the reactor serves all that are ready, what they write becomes one
commit, and when that is on disk each of them is answered with one call. To its protocol such a socket is a transport
like Twisted's own. TLS, QUIC and HTTP are not in the crowd and need not be: the promises are the same there.
"""
