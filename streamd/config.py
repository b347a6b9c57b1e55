"""``streamd.toml`` and the command line → one frozen `Config`, checked before anything is opened.

The file's tables are the dataclasses of `streamd.settings`, key by key, and one table (or array of tables) for each
protocol. Every error is a `ConfigError` of one line: ``FILE: table.key: what is wrong``, or ``--option: …``.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, TypeVar, get_type_hints

from twisted.internet.endpoints import serverFromString

from streamd.access.who import check_rule
from streamd.interfaces import ConfigError, IStreamProtocol
from streamd.settings import AccessRule, Limits, LogSettings, RetentionRule, StoreSettings

__all__ = ["Config", "ConfigError", "Overrides", "Service", "fill", "load"]

DATA_DIR = "streamd-data"
OFF = "off"

# TOML's integers have 64 bits; Python's reader takes longer ones, which nothing behind it could use.
_INTEGER_MAX = (1 << 63) - 1

# Twisted's own parsers take any integer for a port, and fail with it only when they listen.
_PORT = re.compile(r"(?:tcp6?|ssl|tlsfile):(?:port=)?([+-]?[0-9]+)(?=:|$)")

# What is wanted of a value, by the type of the field.
_WANTED = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}

_T = TypeVar("_T")


@dataclass(frozen=True)
class Service:
    """One endpoint to listen on, and what speaks there."""

    protocol: IStreamProtocol
    endpoint: str
    settings: object


@dataclass(frozen=True)
class Config:
    """All that an operator has said, and defaults for the rest."""

    data_dir: str
    log: LogSettings
    store: StoreSettings
    limits: Limits
    services: tuple[Service, ...]
    retention: tuple[RetentionRule, ...] = ()
    access: tuple[AccessRule, ...] = ()
    insecure: bool = False


@dataclass(frozen=True)
class Overrides:
    """What the command line says; it wins over the file. None, or a missing name, leaves the file its say."""

    data_dir: str | None = None
    log: Mapping[str, str] = field(default_factory=dict)
    store: Mapping[str, str] = field(default_factory=dict)
    endpoints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    insecure: bool = False


def load(path: str | None, overrides: Overrides, protocols: Iterable[IStreamProtocol], reactor: object) -> Config:
    """Read the file (None: there is none), check every value in it, and lay the command line over it.

    The reactor is for the parsers of endpoint strings, which want one; nothing is opened.
    """
    known = {protocol.name: protocol for protocol in sorted(protocols, key=lambda each: each.name)}
    try:
        return _checked({} if path is None else _read(path), overrides, known, reactor)
    except _OptionError as error:
        raise ConfigError(str(error))
    except ConfigError as error:
        raise ConfigError(str(error) if path is None else f"{path}: {error}")


def fill(settings: type[_T], table: Mapping[str, object]) -> _T:
    """An instance of a settings dataclass from a table, each value checked against its field.

    Protocols use it for tables of their own. A ConfigError begins with the key; who knows the table's name and the
    file's puts them in front.
    """
    known = {each.name: each for each in fields(settings)}  # type: ignore[arg-type]
    types = get_type_hints(settings)
    values = {}
    for key, value in table.items():
        if key not in known:
            raise _unknown(key, known)
        if value == [] and known[key].default == ():
            values[key] = ()
        else:
            values[key] = _value(key, value, types[key], known[key].metadata)
    return settings(**values)


class _OptionError(ConfigError):
    """The command line is at fault, so the text names the option and no file."""


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8")
    except OSError as error:
        raise ConfigError(error.strerror or str(error))
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 at byte {error.start}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}")
    except RecursionError:
        raise ConfigError("not valid TOML: nested too deeply")


def _checked(
    document: Mapping[str, Any], overrides: Overrides, known: Mapping[str, IStreamProtocol], reactor: object
) -> Config:
    tables: dict[str, type[Any]] = {"log": LogSettings, "store": StoreSettings, "limits": Limits}
    ours = ("data_dir", "insecure", "retention", "access", *tables)
    for key in document:
        if key not in ours and key not in known:
            raise _unknown(key, [*ours, *known])
    data_dir = _value("data_dir", document.get("data_dir", DATA_DIR), str, {})
    given: dict[str, Mapping[str, str]] = {"log": overrides.log, "store": overrides.store}
    filled = {name: _section(name, cls, document, given.get(name, {})) for name, cls in tables.items()}
    _check_limits(filled["limits"])
    if overrides.data_dir is not None:
        data_dir = overrides.data_dir
    if not data_dir or "\0" in data_dir:
        culprit = "data_dir" if overrides.data_dir is None else "--data-dir"
        raise (ConfigError if overrides.data_dir is None else _OptionError)(f"{culprit}: expected a directory's name")
    services: list[Service] = []
    for name, protocol in known.items():
        services += _services(protocol, document.get(name), overrides.endpoints.get(name), reactor)
    retention = _rules("retention", RetentionRule, document)
    _check_archives(retention, services)
    return Config(
        data_dir=data_dir,
        services=tuple(services),
        retention=retention,
        access=_rules("access", AccessRule, document, check_rule),
        insecure=_value("insecure", document.get("insecure", False), bool, {}) or overrides.insecure,
        **filled,
    )


def _rules(
    name: str, kind: type[_T], document: Mapping[str, Any], check: Callable[[_T], None] = lambda rule: None
) -> tuple[_T, ...]:
    """The rules of ``[[name]]``, in their order."""
    stated = document.get(name, [])
    rules: list[_T] = []
    for number, table in enumerate(stated if isinstance(stated, list) else [stated], 1):
        if not isinstance(table, dict):
            raise ConfigError(f"{name}[{number}]: expected a table, got {_show(table)}")
        try:
            rules.append(fill(kind, table))
            check(rules[-1])
        except ConfigError as error:
            raise ConfigError(f"{name}[{number}].{error}")
    return tuple(rules)


def _check_limits(limits: Limits) -> None:
    """What one peer may send must fit into what is buffered for all, or it would wait for room for ever."""
    for key in ("line_bytes_max", "message_bytes_max"):
        if getattr(limits, key) > limits.buffered_bytes_max:
            raise ConfigError(f"limits.{key}: is over limits.buffered_bytes_max, which is {limits.buffered_bytes_max}")


def _check_archives(rules: Sequence[RetentionRule], services: Iterable[Service]) -> None:
    """Readers acknowledge what they read. In the group of an archive that would count as archived, and be dropped."""
    readers = {group: each.protocol.name for each in services for group in getattr(each.settings, "groups", ())}
    for number, rule in enumerate(rules, 1):
        if rule.archived_only and rule.archive_group in readers:
            reader = readers[rule.archive_group]
            raise ConfigError(
                f"retention[{number}].archive_group: {reader} has readers in group {_show(rule.archive_group)}, and "
                "what they acknowledge would count as archived: give the archive a group of its own"
            )


def _section(name: str, settings: type[_T], document: Mapping[str, Any], given: Mapping[str, str]) -> _T:
    """One of our own tables. What the command line gives is checked too: it comes from the same fields."""
    table = document.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{name}: expected a table, got {_show(table)}")
    try:
        fill(settings, table)
    except ConfigError as error:
        raise ConfigError(f"{name}.{error}")
    return fill(settings, {**table, **given})


def _services(protocol: IStreamProtocol, stated: object, given: Sequence[str] | None, reactor: object) -> list[Service]:
    """All endpoints of one protocol: of its tables, or of the command line with the first table's other settings."""
    name = protocol.name
    tables = stated if isinstance(stated, list) and stated else [{} if stated is None else stated]
    found: list[Service] = []
    first: object = None
    for number, table in enumerate(tables, 1):
        where = name if len(tables) == 1 else f"{name}[{number}]"
        if not isinstance(table, dict):
            raise ConfigError(f"{where}: expected a table, got {_show(table)}")
        endpoints = _endpoints(f"{where}.endpoint", table.get("endpoint", protocol.default), reactor)
        try:
            settings = protocol.configure({key: value for key, value in table.items() if key != "endpoint"})
        except ConfigError as error:
            raise ConfigError(f"{where}.{error}")
        if number == 1:
            first = settings
        found += [Service(protocol, endpoint, settings) for endpoint in endpoints]
    if given is None:
        return found
    try:
        return [Service(protocol, endpoint, first) for endpoint in _endpoints(f"--{name}", list(given), reactor)]
    except ConfigError as error:
        raise _OptionError(str(error))


def _endpoints(key: str, stated: object, reactor: object) -> list[str]:
    """The endpoint strings in a value, each one parsed for a try; empty when it says ``off``."""
    strings = [stated] if isinstance(stated, str) else stated
    if not isinstance(strings, list) or not strings or not all(isinstance(each, str) for each in strings):
        raise ConfigError(f"{key}: expected an endpoint or a list of endpoints, got {_show(stated)}")
    if OFF in strings:
        if len(strings) > 1:
            raise ConfigError(f'{key}: "{OFF}" and an endpoint at the same time')
        return []
    for each in strings:
        fault = _fault(each, reactor)
        if fault is not None:
            raise ConfigError(f"{key}: bad endpoint {_show(each)}: {fault}")
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


def _value(key: str, value: object, wanted: type, metadata: Mapping[str, Any]) -> Any:
    """The value if it is of the wanted type and within its bounds. True is no integer; an integer is a number."""
    if wanted == tuple[str, ...]:
        if not isinstance(value, list) or not value:
            raise ConfigError(f"{key}: expected a list of strings, got {_show(value)}")
        return tuple(_value(key, each, str, metadata) for each in value)
    if wanted is float and type(value) is int:
        value = float(value) if abs(value) <= _INTEGER_MAX else math.inf
    if type(value) is not wanted:
        raise ConfigError(f"{key}: expected {_WANTED[wanted]}, got {_show(value)}")
    least, choices = metadata.get("least"), metadata.get("choices")
    if choices is not None and value not in choices:
        raise ConfigError(f"{key}: expected one of {', '.join(choices)}; got {_show(value)}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not abs(value) <= _INTEGER_MAX:  # nor NaN
            raise ConfigError(f"{key}: {_show(value)} is out of range")
        if least is not None and value < least:
            raise ConfigError(f"{key}: {_show(value)} is below the least value of {least}")
    return value


def _unknown(key: str, known: Iterable[str]) -> ConfigError:
    names = sorted(known)
    near = get_close_matches(key, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}" if names else "there are none here"
    return ConfigError(f"{key}: no such key; {hint}")


def _show(value: object) -> str:
    """A value as the file might have it, cut short."""
    if isinstance(value, dict):
        return "a table"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # dates, times
        text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
