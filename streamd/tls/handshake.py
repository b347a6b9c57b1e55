"""Why a handshake failed, in words for the operator's log: the peer gets no more than an alert code of TLS."""

from __future__ import annotations

from typing import Any, Final

from OpenSSL.crypto import X509
from OpenSSL.SSL import Connection, Error
from OpenSSL.SSL import X509VerificationCodes as Codes
from twisted.python.failure import Failure

_CERTIFICATE: Final = {
    Codes.ERR_CERT_REVOKED: "was revoked",
    Codes.ERR_CERT_HAS_EXPIRED: "has run out",
    Codes.ERR_CERT_NOT_YET_VALID: "is not valid yet: are both clocks right?",
    Codes.ERR_CRL_HAS_EXPIRED: "can't be looked up: the list of its authority has run out; renew crl, and reload",
    Codes.ERR_CRL_NOT_YET_VALID: "can't be looked up: the list of its authority is not in force yet",
    Codes.ERR_UNABLE_TO_GET_CRL: "can't be looked up: crl has no list of its authority",
    Codes.ERR_CRL_SIGNATURE_FAILURE: "can't be looked up: the list of its authority is not signed by it",
    Codes.ERR_DEPTH_ZERO_SELF_SIGNED_CERT: "vouches for itself: no authority in clientCA does",
    Codes.ERR_SELF_SIGNED_CERT_IN_CHAIN: "is from an authority that is not in clientCA",
    Codes.ERR_UNABLE_TO_GET_ISSUER_CERT: "is from an authority that is not in clientCA",
    Codes.ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "is from an authority that is not in clientCA",
    Codes.ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE: "is from an authority that is not in clientCA",
    Codes.ERR_CERT_SIGNATURE_FAILURE: "is not signed by the authority that it names",
    Codes.ERR_INVALID_PURPOSE: "is not meant for clients (extended key usage)",
}

# What OpenSSL says, and what it means here.
_PLAIN: Final = {
    "peer did not return a certificate": "it showed no certificate, and clientCA asks for one",
    "http request": "it speaks HTTP, without TLS",
    "wrong version number": "what it sends is no TLS",
    "unsupported protocol": "it offers no version from TLS 1.2 on",
    "internal error": "most likely it names protocols (ALPN) that are not spoken here, as a browser does",
    "no shared cipher": "it offers no cipher that we do",
    "unknown ca": "it does not trust our certificate: it needs that of our authority",
    "certificate expired": "it says that our certificate has run out",
    "bad certificate": "it does not take our certificate",
    "certificate unknown": "it does not take our certificate: for another name, perhaps",
}


class ServerConnection(Connection):
    """A TLS connection that remembers what was wrong with the certificates of its peer."""

    refusal: str | None = None


def remember(connection: Connection, certificate: X509, error: int, depth: int, ok: int) -> bool:
    """A verification callback: notes what OpenSSL finds wrong with each certificate, and keeps OpenSSL's decision."""
    if not ok and isinstance(connection, ServerConnection):
        shown = certificate.to_cryptography()
        what = _CERTIFICATE.get(error, f"is not good (error {error} of OpenSSL)")
        whose = "the certificate of" if not depth else "the authority above it,"
        connection.refusal = f"{whose} {shown.subject.rfc4514_string()}, serial {shown.serial_number:x}, {what}"
    return bool(ok)


def why_failed(transport: Any, reason: Failure) -> str | None:
    """The reason why TLS ended a connection; None where it ended for another reason."""
    if not isinstance(reason.value, Error):
        return None
    handle = getattr(transport, "getHandle", lambda: None)()
    if isinstance(handle, ServerConnection) and handle.refusal is not None:
        return handle.refusal
    said = [str(entry[-1]) for entry in reason.value.args[0]] if reason.value.args else []
    return next(
        (meaning for words, meaning in _PLAIN.items() if any(words in text for text in said)),
        ", ".join(said) or "no reason is known",
    )
