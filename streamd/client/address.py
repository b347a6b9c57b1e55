"""Addresses of daemons, as text.

::

    host:port, [::1]:port                       the port may be left out where there is a default
    unix:PATH
    tls:host:port:ca=FILE:cert=FILE:key=FILE    each of the files is optional
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

DEFAULT_PORT: Final = 12345
"""Where a daemon that was told nothing else serves tools, beside Pravega."""

DEFAULT_ADDRESS: Final = f"127.0.0.1:{DEFAULT_PORT}"

# Where the next file of a TLS address begins.
_FILES: Final = re.compile(":(?=(?:ca|cert|key)=)")


class TcpAddress(NamedTuple):
    """A host, by name or by number, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class UnixAddress(NamedTuple):
    """The path of a unix socket."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


class TlsAddress(NamedTuple):
    """A host and a port where TLS is spoken, and the PEM files of the client."""

    host: str
    port: int
    ca: str | None = None
    """Certificates of the authorities to trust, by default those that the system trusts."""
    cert: str | None = None
    """The client's certificate, if any."""
    key: str | None = None
    """The key of the certificate, where that is not in the same file."""

    def __str__(self) -> str:
        named = {"ca": self.ca, "cert": self.cert, "key": self.key}
        files = "".join(f":{name}={file}" for name, file in named.items() if file is not None)
        return f"tls:{TcpAddress(self.host, self.port)}{files}"


Address = TcpAddress | UnixAddress | TlsAddress


def parse_address(text: str, port: int | None = None) -> Address:
    """Return the address that a text stands for; ValueError where it is none. `port` is that of a host alone."""
    scheme, _, rest = text.partition(":")
    if scheme == "unix":
        if not rest:
            raise ValueError(f"{text!r} has no path")
        return UnixAddress(rest)
    if scheme == "tls":
        return _parse_tls(text, rest, port)
    return TcpAddress(*_host_and_port(text, text, port))


def _parse_tls(text: str, rest: str, default: int | None) -> TlsAddress:
    place, *files = _FILES.split(rest)
    named = dict(file.split("=", 1) for file in files)
    if len(named) < len(files) or not all(named.values()):
        raise ValueError(f"{text!r} is no address: give each of ca, cert and key once at most, and a file for it")
    if "key" in named and "cert" not in named:
        raise ValueError(f"{text!r} has a key and no certificate: give cert=FILE too")
    host, port = _host_and_port(text, place, default)
    return TlsAddress(host, port, named.get("ca"), named.get("cert"), named.get("key"))


def _host_and_port(text: str, place: str, default: int | None) -> tuple[str, int]:
    if default is not None and place and (":" not in place or place.endswith("]")):
        place = f"{place}:{default}"
    host, _, port = place.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is no address: put a host with colons into brackets")
    if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 1 << 16:
        raise ValueError(
            f"{text!r} is no address: expected host:port, unix:PATH or tls:host:port:ca=FILE:cert=FILE:key=FILE"
        )
    return host, int(port)
