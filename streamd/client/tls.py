"""TLS of clients: contexts made of the files that an address names."""

from __future__ import annotations

import ssl

from streamd.client.address import TlsAddress
from streamd.client.errors import ClientError
from streamd.client.target import Target


def context_for(target: Target) -> ssl.SSLContext | None:
    """Return the context of a client, as given or by its address; None where it speaks no TLS. ClientError."""
    if target.ssl_context is None and isinstance(target.address, TlsAddress):
        address = target.address
        return client_context(address.ca, address.cert, address.key)
    context: ssl.SSLContext | None = target.ssl_context
    return context


def client_context(ca: str | None, cert: str | None, key: str | None) -> ssl.SSLContext:
    """Return a context made of PEM files. ClientError names a file that can't be used, and says what is expected."""
    try:
        context = ssl.create_default_context(cafile=ca)
    except ssl.SSLError:
        raise ClientError(f"{ca}: expected certificates of authorities in it, as PEM") from None
    except OSError as error:
        raise ClientError(f"{ca}: {error.strerror}") from None
    if cert is None:
        return context
    try:
        # Without this OpenSSL asks for the password of a key on the terminal, and there may be nobody there.
        context.load_cert_chain(cert, key, password=_no_password)
    except ssl.SSLError:
        where = "in the same file" if key is None else f"in {key}"
        raise ClientError(f"{cert}: expected a certificate in it, and its key {where}, as PEM") from None
    except OSError as error:
        raise ClientError(f"{' or '.join(filter(None, (cert, key)))}: {error.strerror}") from None
    return context


def _no_password() -> str:
    raise ClientError("the key has a password: give one without ('openssl pkey' takes it off)")
