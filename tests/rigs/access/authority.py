"""An authority for tests: certificates for a server and for clients, as files."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

_DAY = timedelta(days=1)
_ADDRESS = x509.IPAddress(ip_address("127.0.0.1"))


class Authority:
    """Vouches for whom it issues a certificate to. Its own is in `file`."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.file = directory / f"{name}.pem"
        own = _builder(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.file.write_bytes(own.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def issue(self, name: str, file: str | None = None, *, until: timedelta = _DAY) -> Path:
        """A key and a certificate for that name, and for this machine, in one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name), self._name, key, until).add_extension(
            x509.SubjectAlternativeName([_ADDRESS]), critical=False
        )
        path = self._directory / (file or f"{name}.pem")
        path.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)
        )
        return path

    def revoke(self, *certificates: Path, until: timedelta = _DAY) -> Path:
        """A list of revoked certificates, these and no others, in a file."""
        now = datetime.now(UTC)
        builder = x509.CertificateRevocationListBuilder(self._name).last_update(now - 2 * _DAY).next_update(now + until)
        for each in certificates:
            serial = x509.load_pem_x509_certificate(each.read_bytes()).serial_number
            revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
            builder = builder.add_revoked_certificate(revoked)
        path = self.file.with_suffix(".crl")
        path.write_bytes(builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM))
        return path

    def context(self, certificate: Path | None = None) -> ssl.SSLContext:
        """What a client needs to believe this authority, and to show a certificate."""
        context = ssl.create_default_context(cafile=self.file)
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context


def tlsfile(certificate: Path, authority: Path | None = None) -> str:
    """An endpoint that shows this certificate, and lets in who shows one of that authority's."""
    asked = "" if authority is None else f":clientCA={authority}"
    return f"tlsfile:0:interface=127.0.0.1:privateKey={certificate}:certKey={certificate}{asked}"


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, until: timedelta = _DAY
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * _DAY)
        .not_valid_after(now + until)
    )
