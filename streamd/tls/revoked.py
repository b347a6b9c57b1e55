"""Lists of revoked certificates (CRLs): read from a file, and looked at before they are relied on.

Where there are lists, a certificate is good only if a list that is in force says nothing against it. So a list that has
run out, or the want of one, keeps out everybody that its authority vouches for: the safe way to be wrong. What can
never work is refused here; a list that has run out is told, and refuses nobody by itself until it is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from cryptography import x509

from streamd.quic.certificate import CertificateError

# Between other things, as the tools of an authority write them.
_PEM: Final = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)


def read_lists(path: str, authorities: Sequence[x509.Certificate]) -> list[x509.CertificateRevocationList]:
    """The lists in a file, one of each authority at least; CertificateError says what is wrong with it."""
    try:
        with open(path, "rb") as file:
            found = [x509.load_pem_x509_crl(each) for each in _PEM.findall(file.read())]
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}")
    except ValueError as error:
        raise CertificateError(f"{path}: {str(error).splitlines()[0]}")
    if not found:
        raise CertificateError(
            f"{path}: no list of revoked certificates is in it: expected PEM, -----BEGIN X509 CRL----- "
            "('openssl crl -inform DER -in FILE' makes it of DER)"
        )
    for each in authorities:
        _check(path, each, [one for one in found if one.issuer == each.subject])
    return found


def _check(path: str, authority: x509.Certificate, lists: Sequence[x509.CertificateRevocationList]) -> None:
    name = authority.subject.rfc4514_string()
    if not lists:
        raise CertificateError(f"{path}: there is no list of {name}, so nobody it vouches for could get in: add it")
    key: Any = authority.public_key()
    if not any(each.is_signature_valid(key) for each in lists):
        raise CertificateError(f"{path}: the list of {name} is not signed by it: get it from that authority again")


def ended(path: str, one: x509.CertificateRevocationList) -> Iterator[str]:
    """That a list has run out, and what that means."""
    last = one.next_update_utc  # one that says nothing of the next never runs out
    if last is not None and datetime.now(UTC) > last:
        whose = one.issuer.rfc4514_string()
        yield (
            f"{path}: the list of {whose} ran out on {last:%Y-%m-%d %H:%M} UTC: nobody it vouches for gets in until "
            "the file has a newer one and is reloaded"
        )
