"""Which listeners anybody on the network can reach and eavesdrop on, and which rules of access match no possible peer.

The daemon calls this when it listens, a reload before it changes anything, and ``streamctl config check`` before
anything runs, so that all three agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final, NamedTuple

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IAddress

from streamd.access.who import Who, parse_who, plain_address
from streamd.endpoints import Stated, parse

if TYPE_CHECKING:
    from streamd.config import Config

Network = IPv4Network | IPv6Network

# Kinds of endpoints that encrypt, also behind a proxy's greeting.
_ENCRYPTED: Final = frozenset({"ssl", "tls", "tlsfile", "quic"})

# Where a kind listens that is told nothing. Those that are not here have no address, or one that only the start shows.
_HOSTS: Final = {"tcp": "0.0.0.0", "ssl": "0.0.0.0", "tlsfile": "0.0.0.0", "quic": "0.0.0.0", "tcp6": "::", "tls": "::"}

_EVERYWHERE: Final[tuple[Network, ...]] = (ip_network("0.0.0.0/0"), ip_network("::/0"))
_LOOPBACK: Final[tuple[Network, ...]] = (ip_network("127.0.0.0/8"), ip_network("::1/128"))

# IPv4 in IPv6: a peer that comes so is known by its IPv4 address.
_MAPPED: Final = IPv6Network("::ffff:0:0/96")

OPEN_TO_EVERYBODY: Final = (
    "would be open to everybody: encrypt it (tlsfile:, ssl:), say who may do what ([[access]]), listen on 127.0.0.1, "
    "or set insecure = true; see docs/security.md"
)


def is_open_to_everybody(config: Config, endpoint: str, address: IAddress | None) -> bool:
    """Whether strangers can use a listener: it is exposed, there are no rules of access, and `insecure` is not set."""
    return not config.insecure and not config.access and is_exposed(endpoint, address)


def is_exposed(endpoint: str, address: IAddress | None) -> bool:
    """Whether a listener at this address is reachable beyond loopback and its endpoint does not encrypt."""
    # A path has no host.
    host = getattr(address, "host", None)
    return host is not None and parse(endpoint).kind not in _ENCRYPTED and not plain_address(host).is_loopback


def stated_address(endpoint: str) -> IPv4Address | IPv6Address | None:
    """The address that a listener will have, as far as its endpoint string says before it listens; else None."""
    stated = parse(endpoint)
    host, port = stated.arguments.get("interface") or _HOSTS.get(stated.kind), stated.arguments.get("port", "")
    if host is None or stated.kind not in _HOSTS or not port.isdecimal():
        return None
    try:
        version = ip_address(host.partition("%")[0]).version
    except ValueError:
        return None  # a name, which is looked up when it listens
    return (IPv4Address if version == 4 else IPv6Address)("UDP" if stated.kind == "quic" else "TCP", host, int(port))


class _Sight(NamedTuple):
    """What a listener can learn about its peers."""

    networks: tuple[Network, ...] = ()
    users: bool = False
    certificates: bool = False


def unmatched_rules(config: Config) -> list[tuple[int, str]]:
    """The rules of access that no peer can match: the number of each, from 1, and the reason."""
    sights = [_sight(parse(service.endpoint)) for service in config.services]
    reasons = [(number, _why_nobody(parse_who(rule.who), sights)) for number, rule in enumerate(config.access, 1)]
    return [(number, why) for number, why in reasons if why is not None]


def _why_nobody(who: Who, sights: Iterable[_Sight]) -> str | None:
    """The reason why no peer of these listeners can match, or None where one can."""
    if who.name is not None and not any(sight.certificates for sight in sights):
        return "no listener asks for client certificates: tlsfile: with clientCA does"
    if who.user is not None and not any(sight.users for sight in sights):
        return "no listener is a unix socket, which alone tells the user"
    if who.network is None:
        return None
    if isinstance(who.network, IPv6Network) and who.network.subnet_of(_MAPPED):
        return "a peer with an IPv4 address is known by that: write it so"
    networks = [network for sight in sights for network in sight.networks]
    if not any(network.version == who.network.version and network.overlaps(who.network) for network in networks):
        return "no listener can be reached from there"
    return None


def _sight(stated: Stated) -> _Sight:
    kind, arguments, behind_proxy = stated
    unix = kind == "unix" or (kind == "systemd" and arguments.get("domain", "").upper() == "UNIX")
    if kind not in (*_HOSTS, "unix", "systemd"):
        # Somebody else's kind of endpoint: whatever it may know.
        return _Sight(_EVERYWHERE, users=True, certificates=True)
    certificates = kind == "tlsfile" and "clientCA" in arguments
    if behind_proxy:
        # The proxy tells any address that it likes.
        return _Sight(_EVERYWHERE, unix, certificates)
    host = arguments.get("interface") or _HOSTS.get(kind, "")
    return _Sight(() if unix else _reachable_from(host), unix, certificates)


def _reachable_from(host: str) -> tuple[Network, ...]:
    """The networks from which a client can connect to a listener on this host."""
    if host == "localhost":
        return _LOOPBACK
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return _EVERYWHERE  # a name, or a socket that somebody else made
    if host == "::":
        return _EVERYWHERE
    networks = _LOOPBACK if address.is_loopback else _EVERYWHERE
    return tuple(network for network in networks if network.version == address.version)
