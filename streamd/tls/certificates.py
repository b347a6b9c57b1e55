"""The certificate that a TLS server shows, and the authorities it trusts: read from files, and reread while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Final

from cryptography import x509
from OpenSSL.crypto import X509, PKey, X509StoreFlags
from OpenSSL.SSL import VERIFY_CLIENT_ONCE, VERIFY_FAIL_IF_NO_PEER_CERT, VERIFY_PEER, Connection, Context
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.internet.ssl import Certificate, CertificateOptions, TLSVersion, trustRootFromCertificates
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOProtocol
from zope.interface import implementer

from streamd.interfaces import IReloadable
from streamd.tls.handshake import ServerConnection, remember
from streamd.tls.revoked import ended, read_lists
from streamd.tls.server_certificate import CertificateError, ServerCertificate

_VERIFY: Final = VERIFY_PEER | VERIFY_FAIL_IF_NO_PEER_CERT | VERIFY_CLIENT_ONCE

# Of each certificate from the client's up to the authority's: one whose issuer was revoked is worth nothing either.
_EVERY_LIST: Final = X509StoreFlags.CRL_CHECK | X509StoreFlags.CRL_CHECK_ALL


@implementer(IOpenSSLServerConnectionCreator, IReloadable)
class Certificates:
    """The key, certificate, authority and revocation lists of one endpoint. A connection keeps those it began with."""

    _log = Logger()

    def __init__(
        self,
        key_path: str,
        certificate_path: str | None = None,
        authority_path: str | None = None,
        lists_path: str | None = None,
    ) -> None:
        self._key_path = key_path
        self._certificate_path = certificate_path
        self._authority_path = authority_path
        self._lists_path = lists_path
        self._warnings: list[str] = []
        self._context = self._read(self._warnings)

    def tell(self) -> None:
        """Log what is in force and of no use, such as an expired certificate."""
        for warning in self._warnings:
            self._log.warn("{what}", what=warning)

    def reread(self) -> Callable[[], None]:
        """Read the files again; CertificateError says what is wrong with them. Call the result to put them in force."""
        warnings: list[str] = []
        return partial(self._use, self._read(warnings), warnings)

    def serverConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> Connection:
        """The OpenSSL connection for a new connection, as Twisted asks for it."""
        connection = ServerConnection(self._context, None)
        # Twisted's context looks here for the factory, to ask it what it speaks, where a client says what it does.
        connection.set_app_data(tlsProtocol)
        if self._authority_path is not None:
            connection.set_verify(_VERIFY, remember)
        return connection

    def _use(self, context: Context, warnings: list[str]) -> None:
        self._context, self._warnings = context, warnings
        self.tell()

    def _read(self, warnings: list[str]) -> Context:
        own = ServerCertificate.read(self._key_path, self._certificate_path)
        warnings += _of_no_use(self._certificate_path or self._key_path, own.certificate)
        authorities = [] if self._authority_path is None else _authorities(self._authority_path)
        trusted = [Certificate(X509.from_cryptography(authority)) for authority in authorities]
        trust = {} if not trusted else {"trustRoot": trustRootFromCertificates(trusted)}
        options = CertificateOptions(
            privateKey=PKey.from_cryptography_key(own.key),
            certificate=X509.from_cryptography(own.certificate),
            extraCertChain=[X509.from_cryptography(certificate) for certificate in own.chain],
            insecurelyLowerMinimumTo=TLSVersion.TLSv1_2,
            **trust,
        )
        context = options.getContext()  # what OpenSSL does not like it says now, and not to the first peer
        if self._lists_path is not None:
            store = context.get_cert_store()
            assert store is not None
            for revoked in read_lists(self._lists_path, authorities):
                store.add_crl(revoked)
                warnings += ended(self._lists_path, revoked)
            store.set_flags(_EVERY_LIST)
        return context


def _of_no_use(path: str, certificate: x509.Certificate) -> Iterator[str]:
    """Why clients will refuse our certificate. The daemon starts all the same: it may be so for a minute only."""
    now, first, last = datetime.now(UTC), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > last:
        yield f"{path}: clients refuse this certificate, which ran out on {last:%Y-%m-%d %H:%M} UTC: renew it"
    elif now < first:
        yield f"{path}: clients refuse this certificate until {first:%Y-%m-%d %H:%M} UTC: is the clock right?"


def _authorities(path: str) -> list[x509.Certificate]:
    """The certificates of a file, which are the only authorities that are trusted."""
    try:
        with open(path, "rb") as file:
            return x509.load_pem_x509_certificates(file.read())
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}")
    except ValueError as error:
        raise CertificateError(f"{path}: {str(error).splitlines()[0]}")
