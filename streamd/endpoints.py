"""Endpoint strings: what one says about its listener, and the defaults that streamd adds."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

BACKLOG: Final = 4096
"""Connections that may wait to be accepted; the kernel takes fewer where ``net.core.somaxconn`` is less.

Twisted's own 50 are few: a client with some thousand threads that begin together loses connections.
"""

# A path is open to its owner and group. Twisted's own mode would let every user in.
_MODE: Final = "660"

# What arguments without a name mean, in the order of Twisted's parsers.
_POSITIONS: Final = {
    "tcp": ("port", "interface", "backlog"),
    "tcp6": ("port", "backlog", "interface"),
    "ssl": ("port", "privateKey", "certKey", "sslmethod", "interface", "backlog"),
    "tls": ("path", "port", "backlog", "interface"),
    "unix": ("address", "mode", "backlog", "lockfile"),
    # Ours. Their other arguments have names.
    "tlsfile": ("port",),
    "quic": ("port",),
}

# A colon that separates: in a value one has a backslash before it.
_COLON: Final = re.compile(r"(?<!\\)((?:\\\\)*):")
_EQUALS: Final = re.compile(r"(?<!\\)((?:\\\\)*)=")


class Stated(NamedTuple):
    """What an endpoint string says."""

    kind: str
    """``tcp``, ``unix``, …"""
    arguments: dict[str, str]
    """Arguments by name; positional ones whose meaning is not known here are left out."""
    behind_proxy: bool
    """Whether a proxy tells the address of the peer: the string begins with ``haproxy:``."""


def parse(endpoint: str) -> Stated:
    """What an endpoint string says. Only the parser of its kind can tell whether it makes sense."""
    kind, *parts = _COLON.sub("\\1\0", endpoint).split("\0")
    behind_proxy = kind == "haproxy" and bool(parts)
    if behind_proxy:
        kind, *parts = parts
    positions = iter(_POSITIONS.get(kind, ()))
    arguments: dict[str, str] = {}
    for part in parts:
        name, equals, value = _EQUALS.sub("\\1\0", part, count=1).partition("\0")
        if not equals:
            name, value = next(positions, ""), part
        arguments[name] = re.sub(r"\\(.)", r"\1", value)
    arguments.pop("", None)
    return Stated(kind, arguments, behind_proxy)


def completed(endpoint: str) -> str:
    """The endpoint string with a mode for a unix socket that has none, and a long queue where none is given."""
    kind, arguments, _ = parse(endpoint)
    if kind == "unix" and "mode" not in arguments:
        endpoint += f":mode={_MODE}"
    if "backlog" in _POSITIONS.get(kind, ()) and "backlog" not in arguments:
        endpoint += f":backlog={BACKLOG}"
    return endpoint
