"""TLS as a Twisted server endpoint that can ask for client certificates and read its files again.

| module | what it is |
|---|---|
| `server_certificate` | a server's certificate, read or made; QUIC's too |
| `certificates` | the files, and the contexts that OpenSSL makes connections from |
| `revoked` | lists of revoked certificates |
| `handshake` | why one failed, in words |
| `endpoint` | the endpoint, as a class and as a string |
| `plugin` | what Twisted finds for ``tlsfile:`` |
"""
