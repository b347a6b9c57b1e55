"""``streamd.toml`` and the command line → one frozen `Config`, checked before anything is opened.

The file's tables are the dataclasses of `streamd.settings`, key by key, and one table (or array of tables) for each
protocol. Every error is a `ConfigError` of one line: ``FILE: table.key: what is wrong``, or ``--option: …``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from twisted.internet.endpoints import serverFromString

from streamd.access.who import check_rule
from streamd.interfaces import ConfigError, IStreamProtocol
from streamd.patterns import matcher
from streamd.settings import AccessRule, GroupRule, Limits, LogSettings, RetentionRule, StoreSettings
from streamd.store.errors import BadName
from streamd.store.names import check_name
from streamd.tables import fill, parse, read_text, show, unknown_key

__all__ = ["Config", "ConfigError", "Endpoint", "Overrides", "fill", "load"]

DATA_DIR = "streamd-data"
OFF = "off"

# Twisted's own parsers take any integer for a port, and fail with it only when they listen.
_PORT = re.compile(r"(?:tcp6?|ssl|tlsfile):(?:port=)?([+-]?[0-9]+)(?=:|$)")


_T = TypeVar("_T")


@dataclass(frozen=True)
class Endpoint:
    """One endpoint to listen on, its protocol and the protocol's settings."""

    protocol: IStreamProtocol
    endpoint: str
    settings: object


@dataclass(frozen=True)
class Config:
    """The whole configuration, with defaults for what the operator did not set."""

    data_dir: str
    log: LogSettings
    store: StoreSettings
    limits: Limits
    services: tuple[Endpoint, ...]
    retention: tuple[RetentionRule, ...] = ()
    access: tuple[AccessRule, ...] = ()
    groups: tuple[GroupRule, ...] = ()
    insecure: bool = False


@dataclass(frozen=True)
class Overrides:
    """The values of the command line, which win over the file. None, or a missing name, keeps the file's value."""

    data_dir: str | None = None
    log: Mapping[str, str] = field(default_factory=dict)
    store: Mapping[str, str] = field(default_factory=dict)
    endpoints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    insecure: bool = False


def load(path: str | None, overrides: Overrides, protocols: Iterable[IStreamProtocol], reactor: object) -> Config:
    """Read the file (None: there is none), check every value in it, and apply the command line.

    The reactor is for the parsers of endpoint strings, which want one; nothing is opened.
    """
    known = {protocol.name: protocol for protocol in sorted(protocols, key=lambda protocol: protocol.name)}
    try:
        return _checked({} if path is None else parse(read_text(path)), overrides, known, reactor)
    except _OptionError:
        raise
    except ConfigError as error:
        raise ConfigError(error.text, *error.path, file=path)


class _OptionError(ConfigError):
    """A wrong value on the command line: the text names the option and no file."""


@dataclass(frozen=True)
class _File:
    """The keys and tables of the file that do not belong to a protocol."""

    data_dir: str = DATA_DIR
    insecure: bool = False
    log: LogSettings = LogSettings()
    store: StoreSettings = StoreSettings()
    limits: Limits = Limits()
    retention: tuple[RetentionRule, ...] = ()
    access: tuple[AccessRule, ...] = ()
    groups: tuple[GroupRule, ...] = ()


def _checked(
    document: Mapping[str, Any], overrides: Overrides, known: Mapping[str, IStreamProtocol], reactor: object
) -> Config:
    ours = [field.name for field in fields(_File)]
    for key in document:
        if key not in ours and key not in known:
            raise unknown_key(key, [*ours, *known])
    file = fill(_File, {key: value for key, value in document.items() if key in ours})
    _check_limits(file.limits)
    _check_each("access", file.access, check_rule)
    _check_each("groups", file.groups, check_group_rule)
    services: list[Endpoint] = []
    for name, protocol in known.items():
        services += _services(protocol, document.get(name), overrides.endpoints.get(name), reactor)
    _check_archives(file.retention, services)
    _check_dead_letters(file.groups)
    return Config(
        data_dir=_data_dir(file.data_dir, overrides.data_dir),
        # What the command line gives is checked too: it comes from the same fields.
        log=fill(LogSettings, {**document.get("log", {}), **overrides.log}),
        store=fill(StoreSettings, {**document.get("store", {}), **overrides.store}),
        limits=file.limits,
        services=tuple(services),
        retention=file.retention,
        access=file.access,
        groups=file.groups,
        insecure=file.insecure or overrides.insecure,
    )


def _data_dir(stated: str, given: str | None) -> str:
    """The directory of the command line, or else that of the file."""
    directory = stated if given is None else given
    if not directory or "\0" in directory:
        kind, key = (ConfigError, "data_dir") if given is None else (_OptionError, "--data-dir")
        raise kind("expected a directory's name", key)
    return directory


def _check_each(name: str, rules: Iterable[_T], check: Callable[[_T], None]) -> None:
    for number, rule in enumerate(rules):
        try:
            check(rule)
        except ConfigError as error:
            raise error.within(name, number)


def _check_limits(limits: Limits) -> None:
    """What one peer may send must fit into the buffers of all peers, or it would wait for room for ever."""
    for key in ("line_bytes_max", "message_bytes_max"):
        if getattr(limits, key) > limits.buffered_bytes_max:
            limit = limits.buffered_bytes_max
            raise ConfigError(f"is over limits.buffered_bytes_max, which is {limit}", "limits", key)


def _check_archives(rules: Sequence[RetentionRule], services: Iterable[Endpoint]) -> None:
    """Refuse an archive's group that readers acknowledge in: what they read would count as archived and be dropped."""
    readers = {
        group: service.protocol.name for service in services for group in getattr(service.settings, "groups", ())
    }
    for number, rule in enumerate(rules):
        if rule.archived_only and rule.archive_group in readers:
            reader = readers[rule.archive_group]
            raise ConfigError(
                f"{reader} has readers in group {show(rule.archive_group)}, and what they acknowledge would count as "
                "archived: give the archive a group of its own",
                *("retention", number, "archive_group"),
            )


def check_group_rule(rule: GroupRule) -> None:
    """ConfigError where a rule of groups would lose messages, or leaves open where they go."""
    if rule.deliveries_max and not rule.dead_letter:
        raise ConfigError("is missing: with deliveries_max it says where messages go that are given up", "dead_letter")
    if rule.dead_letter and not rule.deliveries_max:
        raise ConfigError("is missing: with dead_letter it says when a message is given up", "deliveries_max")
    if rule.dead_letter:
        try:
            check_name(rule.dead_letter)
        except BadName as error:
            raise ConfigError(str(error), "dead_letter")


def _check_dead_letters(rules: Sequence[GroupRule]) -> None:
    """Dead letters that are given up in their turn must not come back to a topic where they have been."""
    ways = {
        rule.dead_letter: {
            other.dead_letter
            for other in rules
            if other.dead_letter not in ("", rule.dead_letter) and matcher(other.topic)(rule.dead_letter)
        }
        for rule in rules
        if rule.dead_letter
    }
    for begin in ways:
        reached, new = set[str](), ways[begin]
        while new:
            reached |= new
            new = {far for near in new for far in ways[near]} - reached
        if begin in reached:
            raise ConfigError(f"dead letters in {show(begin)} could come back there by other rules: a circle", "groups")


def _services(
    protocol: IStreamProtocol, stated: object, given: Sequence[str] | None, reactor: object
) -> list[Endpoint]:
    """All endpoints of a protocol: those of its tables, or those of the command line with the first table's settings"""
    name = protocol.name
    tables = stated if isinstance(stated, list) and stated else [{} if stated is None else stated]
    endpoints: list[Endpoint] = []
    first: object = None
    for number, table in enumerate(tables):
        try:
            if not isinstance(table, dict):
                raise ConfigError(f"expected a table, got {show(table)}")
            strings = _endpoints("endpoint", table.get("endpoint", protocol.default), reactor)
            settings = protocol.configure({key: value for key, value in table.items() if key != "endpoint"})
        except ConfigError as error:
            raise error.within(name) if len(tables) == 1 else error.within(name, number)
        if number == 0:
            first = settings
        endpoints += [Endpoint(protocol, string, settings) for string in strings]
    if given is None:
        return endpoints
    try:
        return [Endpoint(protocol, string, first) for string in _endpoints(f"--{name}", list(given), reactor)]
    except ConfigError as error:
        raise _OptionError(error.text, *error.path)


def _endpoints(key: str, stated: object, reactor: object) -> list[str]:
    """The endpoint strings in a value, after a trial parse of each; empty where it says ``off``."""
    strings = [stated] if isinstance(stated, str) else stated
    if not isinstance(strings, list) or not strings or not all(isinstance(string, str) for string in strings):
        raise ConfigError(f"expected an endpoint or a list of endpoints, got {show(stated)}", key)
    if OFF in strings:
        if len(strings) > 1:
            raise ConfigError(f'"{OFF}" and an endpoint at the same time', key)
        return []
    for string in strings:
        fault = _fault(string, reactor)
        if fault is not None:
            raise ConfigError(f"bad endpoint {show(string)}: {fault}", key)
    return strings


def _fault(endpoint: str, reactor: object) -> str | None:
    """What is wrong with an endpoint string, in an operator's words, or None. Key files are read, nothing is opened."""
    port = _PORT.match(endpoint)
    if port is not None and not 0 <= int(port[1]) <= 65535:
        return f"port {port[1]} is not between 0 and 65535"
    if endpoint == "unix:":
        return "a path is missing"
    try:
        serverFromString(reactor, endpoint)
    except OSError as error:
        return f"{error.strerror}: {error.filename}" if error.filename else str(error)
    except TypeError as error:  # from a parser's signature: "_parseTCP() missing 1 required … argument: 'port'"
        return re.sub(r"^\S+\(\) ", "", str(error))
    except LookupError:
        return "no such socket was handed over"
    except Exception as error:  # each kind of endpoint has its own parser, and a plugin's may raise anything
        if "Unknown endpoint type" in str(error):
            return "expected something like tcp:4840:interface=127.0.0.1 or unix:/run/streamd.sock"
        return re.sub(r"^invalid literal for int\(\) with base \d+: (.*)$", r"\1 is not a number", str(error))
    return None
