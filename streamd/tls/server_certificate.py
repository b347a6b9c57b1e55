"""The certificate of a server: read from files, or made where there is none.

Clients of several families agree on one form only: a certificate that is no authority, signed by an authority that they
were told to trust. rustls refuses an authority's own certificate as that of a server, quiche one that signed itself.
So what is made here is a small authority, and a certificate for this machine that it has signed.

| file | what it holds |
|---|---|
| `CA_NAME` | the authority's certificate: the file that clients trust |
| `CA_KEY_NAME` | the authority's key: needed to renew, here and nowhere else |
| `FILE_NAME` | the certificate that the server shows, and the authority's behind it |
| `KEY_NAME` | the server's key |

All have mode 600: clients are given a copy of the first.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_NAME: Final = "quic-ca.pem"
CA_KEY_NAME: Final = "quic-ca-key.pem"
FILE_NAME: Final = "quic-certificate.pem"
KEY_NAME: Final = "quic-key.pem"

_CA_LIFE: Final = timedelta(days=7300)
_LIFE: Final = timedelta(days=825)
# A start renews a certificate that has less than this left, so that a daemon may run for so long without a restart.
_RENEW: Final = timedelta(days=550)
# A peer's clock may be behind ours.
_BACKDATED: Final = timedelta(minutes=5)
_NAMES: Final = ("localhost", "127.0.0.1", "::1")
# A host may be called anything. In a certificate a name that is none of DNS can cost all others in it.
_LABEL: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_HOST_NAME: Final = re.compile(rf"(?=.{{1,253}}$)({_LABEL}\.)*(?!\d+$){_LABEL}")

# By their names a start knows its own ones again.
_AUTHORITY: Final = "streamd CA "
_SELF_MADE: Final = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
"""The common name of the self-signed certificates that earlier versions made."""


class CertificateError(ValueError):
    """A private key or certificate that can't be used. The text names the file."""


@dataclass(frozen=True)
class ServerCertificate:
    """A private key, its certificate, and the intermediate certificates up to one that clients trust."""

    key: Any = field(repr=False)
    certificate: x509.Certificate
    chain: tuple[x509.Certificate, ...] = ()
    files: tuple[str, str | None] | None = field(default=None, repr=False, compare=False)
    """The files that it was read from."""

    @classmethod
    def read(cls, key_path: str, certificate_path: str | None = None) -> ServerCertificate:
        """Read PEM files; one file may hold both. CertificateError says what is wrong with them."""
        path = key_path
        try:
            with open(path, "rb") as file:
                key = load_pem_private_key(file.read(), password=None)
            path = certificate_path or key_path
            with open(path, "rb") as file:
                certificates = x509.load_pem_x509_certificates(file.read())
        except OSError as error:
            raise CertificateError(f"{path}: {error.strerror}")
        except (TypeError, ValueError) as error:
            raise CertificateError(f"{path}: {str(error).splitlines()[0]}")
        if certificates[0].public_key() != key.public_key():
            raise CertificateError(f"{path}: the certificate is not for the key in {key_path}")
        return cls(key, certificates[0], tuple(certificates[1:]), (key_path, certificate_path))


class LocalCertificate(NamedTuple):
    """A certificate that was made for this machine, or that somebody has put in its place."""

    certificate: ServerCertificate
    trusted: str
    """The file that clients have to trust."""
    replaced: bool
    """Whether it replaced a self-signed one of an earlier version: clients that trust that one need the new file."""


def local_certificate(directory: str, *, now: datetime | None = None) -> LocalCertificate:
    """The certificate for this machine that is in a directory, with its authority; made where it is not there.

    The authority stays the same, so that clients are told once to trust it. The certificate that it signs is renewed
    in good time, and when this machine has another name. One that this function did not make is used and never
    touched. CertificateError where a file is damaged: clients may trust what was in it.
    """
    return _Local(directory, now or datetime.now(UTC)).certificate()


class _Local:
    """The four files in one directory."""

    def __init__(self, directory: str, now: datetime) -> None:
        self._now = now
        self._directory = directory
        self._ca, self._ca_key, self._path, self._key = (
            os.path.join(directory, name) for name in (CA_NAME, CA_KEY_NAME, FILE_NAME, KEY_NAME)
        )

    def certificate(self) -> LocalCertificate:
        shown = ServerCertificate.read(self._key, self._path) if os.path.exists(self._path) else None
        if shown is not None and not (_is_self_made(shown.certificate) or _is_issued(shown.certificate)):
            return LocalCertificate(shown, self._path, replaced=False)
        authority = self._authority()
        if shown is None or not self._is_good(shown.certificate, authority):
            self._write_certificate(shown)
        replaced = shown is not None and _is_self_made(shown.certificate)
        return LocalCertificate(ServerCertificate.read(self._key, self._path), self._ca, replaced)

    def _authority(self) -> x509.Certificate:
        """The authority's certificate, made or renewed where that is due.

        Its key stays, so that older copies stay valid.
        """
        if not os.path.exists(self._ca):
            # The key first: a certificate without one would be a riddle to the next start, a key alone is made anew.
            name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{_AUTHORITY}{os.urandom(8).hex()}")])
            self._write_authority(self._make_key(self._ca_key), name)
        certificate = _read_certificate(self._ca)
        # What it signs must not outlive it.
        if certificate.not_valid_after_utc - self._now < _LIFE:
            key = ServerCertificate.read(self._ca_key, self._ca).key
            self._write_authority(key, certificate.subject)
            certificate = _read_certificate(self._ca)
        return certificate

    def _is_good(self, certificate: x509.Certificate, authority: x509.Certificate) -> bool:
        """Whether a certificate is valid for as long as a daemon may run."""
        return (
            _is_signed_by(certificate, authority)
            and certificate.not_valid_after_utc - self._now > _RENEW
            and certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value == _own_names()
        )

    def _make_key(self, path: str) -> Any:
        key = ec.generate_private_key(ec.SECP256R1())
        self._write(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return key

    def _write_authority(self, key: Any, name: x509.Name) -> None:
        builder = self._builder(name, name, key, _CA_LIFE)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        self._write(self._ca, builder.sign(key, SHA256()).public_bytes(Encoding.PEM))

    def _write_certificate(self, before: ServerCertificate | None) -> None:
        """Sign a certificate, for the existing key where there is one: no certificate is ever without its key."""
        authority = ServerCertificate.read(self._ca_key, self._ca)
        key = self._make_key(self._key) if before is None else before.key
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "streamd")])
        issuer = authority.certificate
        builder = self._builder(name, issuer.subject, key, _LIFE)
        identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        for extension, critical in (
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage(signs_certificates=False), True),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
            (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), False),
            (_own_names(), False),
        ):
            builder = builder.add_extension(extension, critical=critical)
        signed = builder.sign(authority.key, SHA256())
        self._write(self._path, b"".join([certificate.public_bytes(Encoding.PEM) for certificate in (signed, issuer)]))

    def _builder(self, name: x509.Name, issuer: x509.Name, key: Any, life: timedelta) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _BACKDATED)
            .not_valid_after(self._now + life)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )

    def _write(self, path: str, data: bytes) -> None:
        """Write a file atomically, readable for its owner alone from the first moment on."""
        beside = f"{path}.new"
        try:
            os.unlink(beside)
        except FileNotFoundError:
            pass
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(beside, path)
        # The directory too: after a power cut a certificate could be there without its key.
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read_certificate(path: str) -> x509.Certificate:
    try:
        with open(path, "rb") as file:
            return x509.load_pem_x509_certificate(file.read())
    except ValueError as error:
        raise CertificateError(f"{path}: {str(error).splitlines()[0]}")


def _is_issued(certificate: x509.Certificate) -> bool:
    """Whether an authority that was made here signed this certificate, also one that is gone."""
    names = certificate.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    return bool(names) and str(names[0].value).startswith(_AUTHORITY)


def _is_self_made(certificate: x509.Certificate) -> bool:
    """Whether an earlier version made this certificate."""
    return certificate.subject == certificate.issuer == _SELF_MADE and _is_signed_by(certificate, certificate)


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """The key usage of a certificate: signing certificates, or else handshakes."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _own_names() -> x509.SubjectAlternativeName:
    """The names and addresses of this machine."""
    host = socket.gethostname().lower()
    names = [*_NAMES, host] if _HOST_NAME.fullmatch(host) and host not in _NAMES else _NAMES
    return x509.SubjectAlternativeName([_general_name(name) for name in names])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
