"""What a TLS server shows, and whom it believes: read from files, and read again without dropping a connection."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cryptography import x509
from OpenSSL.crypto import X509, PKey
from OpenSSL.SSL import Connection
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.internet.ssl import Certificate, CertificateOptions, TLSVersion, trustRootFromCertificates
from twisted.protocols.tls import TLSMemoryBIOProtocol
from zope.interface import implementer

from streamd.interfaces import IReloadable
from streamd.quic.certificate import CertificateError, ServerCertificate


@implementer(IOpenSSLServerConnectionCreator, IReloadable)
class Certificates:
    """Key, certificate and authority of one endpoint. A connection keeps what was there when it came."""

    def __init__(self, key_path: str, certificate_path: str | None = None, authority_path: str | None = None) -> None:
        self._key_path = key_path
        self._certificate_path = certificate_path
        self._authority_path = authority_path
        self._options = self._read()

    def reread(self) -> Callable[[], None]:
        """Read the files again; CertificateError says what is wrong with them. What is returned puts them in force."""
        return partial(self._use, self._read())

    def serverConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> Connection:
        """What OpenSSL makes of a new connection."""
        return Connection(self._options.getContext(), None)

    def _use(self, options: Any) -> None:
        self._options = options

    def _read(self) -> Any:
        own = ServerCertificate.read(self._key_path, self._certificate_path)
        trust = {} if self._authority_path is None else {"trustRoot": _authority(self._authority_path)}
        options = CertificateOptions(
            privateKey=PKey.from_cryptography_key(own.key),
            certificate=X509.from_cryptography(own.certificate),
            extraCertChain=[X509.from_cryptography(each) for each in own.chain],
            insecurelyLowerMinimumTo=TLSVersion.TLSv1_2,
            **trust,
        )
        options.getContext()  # what OpenSSL does not like it says now, and not to the first peer
        return options


def _authority(path: str) -> Any:
    """Trust in whom the certificates of a file vouch for, and in nobody else."""
    try:
        with open(path, "rb") as file:
            found = x509.load_pem_x509_certificates(file.read())
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}")
    except ValueError as error:
        raise CertificateError(f"{path}: {str(error).splitlines()[0]}")
    return trustRootFromCertificates([Certificate(X509.from_cryptography(each)) for each in found])
