"""Certificates that sign themselves, as earlier versions made them."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from streamd.tls.server_certificate import FILE_NAME, KEY_NAME


def write_self_made(directory: str, common_name: str = "localhost") -> x509.Certificate:
    """Put a certificate there that signed itself, with its key beside it. By another name it is an operator's."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    names = [x509.DNSName("localhost"), *[x509.IPAddress(ip_address(each)) for each in ("127.0.0.1", "::1")]]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=825))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, SHA256())
    )
    with open(os.path.join(directory, KEY_NAME), "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with open(os.path.join(directory, FILE_NAME), "wb") as file:
        file.write(certificate.public_bytes(Encoding.PEM))
    return certificate
