"""The identity of a peer, and the peers that a rule of access matches.

A peer has up to three names: those in the certificate that it showed and that our authority has signed, the unix user
at the other end of a unix socket, and its network address.
"""

from __future__ import annotations

import pwd
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from streamd.interfaces import ConfigError
from streamd.settings import AccessRule

ANYONE: Final = "anyone"


@dataclass(frozen=True)
class Peer:
    """What is known of the other end of a connection."""

    names: frozenset[str] = frozenset()
    """The names in its certificate: common names, DNS names, mail addresses and URIs."""
    user: int | None = None
    """The number of its unix user."""
    address: IPv4Address | IPv6Address | None = None

    def called(self) -> list[str]:
        """All values of ``who`` that would match this peer."""
        user = [] if self.user is None else [f"user:{self.user}"]
        address = [] if self.address is None else [f"net:{self.address}"]
        return [*(f"cert:{name}" for name in sorted(self.names)), *user, *address]


@dataclass(frozen=True)
class Who:
    """The peers that a rule matches: one field is set, or none for anyone."""

    name: str | None = None
    user: int | None = None
    network: IPv4Network | IPv6Network | None = None

    def fits(self, peer: Peer) -> bool:
        """Whether the rule matches this peer."""
        if self.name is not None:
            return self.name in peer.names
        if self.user is not None:
            return self.user == peer.user
        return self.network is None or (peer.address is not None and peer.address in self.network)


def parse_who(text: str) -> Who:
    """The peers that the value of ``who`` means; ConfigError where it can match nobody."""
    kind, colon, value = text.partition(":")
    if text == ANYONE:
        return Who()
    if not colon or not value:
        raise ConfigError(f'expected "cert:NAME", "user:NAME", "net:ADDRESS/BITS" or "{ANYONE}", got "{text}"', "who")
    if kind == "cert":
        return Who(name=value)
    if kind == "user":
        return Who(user=_user(value))
    if kind == "net":
        try:
            return Who(network=ip_network(value))
        except ValueError as error:
            raise ConfigError(str(error), "who")
    raise ConfigError(f'there is no "{kind}:", only cert:, user:, net: and {ANYONE}', "who")


def check_rule(rule: AccessRule) -> None:
    """Raise ConfigError where a rule does not say whom it matches or what it allows: neither has a safe default."""
    parse_who(rule.who)
    if not rule.allow:
        raise ConfigError("is missing", "allow")


def plain_address(host: str) -> IPv4Address | IPv6Address:
    """An address without its zone, and as IPv4 where a dual-stack socket has mapped it into IPv6."""
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _user(name: str) -> int:
    if name.isascii() and name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, UnicodeEncodeError):
        raise ConfigError(f"there is no user {name}", "who")
