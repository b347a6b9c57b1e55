"""The certificate of a server: read from files, or made where there is none."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

FILE_NAME: Final = "quic-certificate.pem"
KEY_NAME: Final = "quic-key.pem"
"""What `self_signed` makes: a certificate that clients are given, and the key to it, which nobody is."""

_LIFE: Final = timedelta(days=825)
# A daemon that runs for months should not end up with a certificate that ran out: a start renews it in good time.
_RENEW: Final = timedelta(days=30)
_NAMES: Final = ("localhost", "127.0.0.1", "::1")


class CertificateError(ValueError):
    """A private key or certificate that can't be used. The text names the file."""


@dataclass(frozen=True)
class ServerCertificate:
    """A private key, the certificate for it, and those between it and one that clients trust."""

    key: Any = field(repr=False)
    certificate: x509.Certificate
    chain: tuple[x509.Certificate, ...] = ()
    files: tuple[str, str | None] | None = field(default=None, repr=False, compare=False)
    """Where it was read from."""

    @classmethod
    def read(cls, key_path: str, certificate_path: str | None = None) -> ServerCertificate:
        """Read PEM files; one file may hold both. CertificateError says what is wrong with them."""
        path = key_path
        try:
            with open(path, "rb") as file:
                key = load_pem_private_key(file.read(), password=None)
            path = certificate_path or key_path
            with open(path, "rb") as file:
                found = x509.load_pem_x509_certificates(file.read())
        except OSError as error:
            raise CertificateError(f"{path}: {error.strerror}")
        except (TypeError, ValueError) as error:
            raise CertificateError(f"{path}: {str(error).splitlines()[0]}")
        if found[0].public_key() != key.public_key():
            raise CertificateError(f"{path}: the certificate is not for the key in {key_path}")
        return cls(key, found[0], tuple(found[1:]), (key_path, certificate_path))


def self_signed(directory: str, *, now: datetime | None = None) -> tuple[ServerCertificate, str]:
    """A certificate that vouches for itself, and its file in a directory; for this machine only.

    The one that was made before is used again, so that clients can be told to trust it, unless it has run out or is
    about to; the key stays the same.
    """
    path, key_path = os.path.join(directory, FILE_NAME), os.path.join(directory, KEY_NAME)
    now = now or datetime.now(UTC)
    if os.path.exists(path):
        known = ServerCertificate.read(key_path, path)
        if known.certificate.not_valid_after_utc - now > _RENEW:
            return known, path
        key = known.key
    else:
        # The key first: a certificate without one would be a riddle to the next start, a key alone is made anew.
        key = ec.generate_private_key(ec.SECP256R1())
        _write(key_path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)
    _write(path, _make(key, now), 0o600)
    return ServerCertificate.read(key_path, path), path


def _make(key: Any, now: datetime) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectAlternativeName([_general_name(each) for each in _NAMES]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, SHA256())
    )
    return certificate.public_bytes(Encoding.PEM)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(path: str, data: bytes, mode: int) -> None:
    """Put a file there whole or not at all, with this mode from the first moment on."""
    beside = f"{path}.new"
    try:
        os.unlink(beside)
    except FileNotFoundError:
        pass
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    os.replace(beside, path)
