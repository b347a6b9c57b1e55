"""Which listeners anybody on the network can reach, and read along with."""

from __future__ import annotations

import re
from typing import Final

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IAddress

from streamd.access.who import plain_address

# Kinds of endpoints that encrypt, also behind a proxy's greeting.
_ENCRYPTED: Final = re.compile(r"(?:haproxy:)?(?:ssl|tls|tlsfile|quic):")

# A mode that is given; in a path a colon has a backslash before it.
_MODE: Final = re.compile(r"(?<!\\):mode=")


def is_exposed(endpoint: str, address: IAddress) -> bool:
    """Whether what listens at this address, as that endpoint says, is beyond loopback and not encrypted."""
    if _ENCRYPTED.match(endpoint) or not isinstance(address, IPv4Address | IPv6Address):
        return False
    return not plain_address(address.host).is_loopback


def with_mode(endpoint: str) -> str:
    """The endpoint, with a mode where it is a unix socket without one: Twisted's own would let every user in."""
    if endpoint.startswith("unix:") and not _MODE.search(endpoint):
        return f"{endpoint}:mode=660"
    return endpoint
