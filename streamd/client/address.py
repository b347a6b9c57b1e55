"""Where a daemon listens: ``host:port``, ``[::1]:port`` or ``unix:PATH``."""

from __future__ import annotations

from typing import NamedTuple


class TcpAddress(NamedTuple):
    """A host, by name or number, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class UnixAddress(NamedTuple):
    """The path of a socket."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


Address = TcpAddress | UnixAddress


def parse_address(text: str) -> Address:
    """The address in a text; ValueError where there is none."""
    scheme, _, path = text.partition(":")
    if scheme == "unix":
        if not path:
            raise ValueError(f"{text!r} has no path")
        return UnixAddress(path)
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is no address: put a host with colons into brackets")
    if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{text!r} is no address: expected host:port or unix:PATH")
    return TcpAddress(host, int(port))
