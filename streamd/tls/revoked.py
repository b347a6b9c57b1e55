"""Lists of revoked certificates (CRLs), read from a file and checked before they are used.

Where there are lists, a certificate is valid only if a current list of its authority does not name it. So an expired or
missing list locks out everybody whom that authority has certified: the safe way to be wrong. Lists that can never work
are refused here; an expired one is logged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from cryptography import x509

from streamd.tls.server_certificate import CertificateError

# Between other things, as the tools of an authority write them.
_PEM: Final = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)


def read_lists(path: str, authorities: Sequence[x509.Certificate]) -> list[x509.CertificateRevocationList]:
    """The lists in a file, at least one of each authority; CertificateError says what is wrong with the file."""
    try:
        with open(path, "rb") as file:
            lists = [x509.load_pem_x509_crl(pem) for pem in _PEM.findall(file.read())]
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}")
    except ValueError as error:
        raise CertificateError(f"{path}: {str(error).splitlines()[0]}")
    if not lists:
        raise CertificateError(
            f"{path}: no list of revoked certificates is in it: expected PEM, -----BEGIN X509 CRL----- "
            "('openssl crl -inform DER -in FILE' makes it of DER)"
        )
    for authority in authorities:
        _check(path, authority, [one for one in lists if one.issuer == authority.subject])
    return lists


def _check(path: str, authority: x509.Certificate, lists: Sequence[x509.CertificateRevocationList]) -> None:
    name = authority.subject.rfc4514_string()
    if not lists:
        raise CertificateError(f"{path}: there is no list of {name}, so nobody it vouches for could get in: add it")
    key: Any = authority.public_key()
    if not any(revoked.is_signature_valid(key) for revoked in lists):
        raise CertificateError(f"{path}: the list of {name} is not signed by it: get it from that authority again")


def ended(path: str, one: x509.CertificateRevocationList) -> Iterator[str]:
    """The text that a list has expired, and what that means."""
    last = one.next_update_utc  # one that says nothing of the next never runs out
    if last is not None and datetime.now(UTC) > last:
        whose = one.issuer.rfc4514_string()
        yield (
            f"{path}: the list of {whose} ran out on {last:%Y-%m-%d %H:%M} UTC: nobody it vouches for gets in until "
            "the file has a newer one and is reloaded"
        )
