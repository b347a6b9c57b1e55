"""``[fujin]``: what an operator can set, and how reader names become topics and groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from streamd.config import fill
from streamd.interfaces import ConfigError
from streamd.settings import setting
from streamd.store import BadName
from streamd.store.names import check_name
from streamd.wire.fujin_replies import META

_STARTS: Final = ("earliest", "latest")


@dataclass(frozen=True)
class ReaderSettings:
    """``[fujin.readers.NAME]``: what a client gets that connects a reader by this name."""

    topic: str = setting("", "the topic it reads; the reader's own name where that is empty")
    group: str = setting("fujin", "the reader group it is in; an empty name gives it all messages")
    auto_commit: bool = setting(True, "whether a message counts as acknowledged when it is sent")
    start: str = setting("earliest", "where a group begins that is new", choices=_STARTS)


@dataclass(frozen=True)
class FujinSettings:
    """``[fujin]``, beside the endpoint."""

    auto_create: bool = setting(True, "whether a topic is made when somebody writes to it or reads it")
    start: str = setting("earliest", "where a new group begins, of readers without a table", choices=_STARTS)
    transaction_bytes_max: int = setting(64 << 20, "the largest transaction", least=1)
    ping_seconds: float = setting(2.0, "seconds between two pings on a connection", least=0.1)
    pong_seconds_max: float = setting(5.0, "seconds a client has to answer one", least=0.1)
    stop_seconds_max: float = setting(15.0, "seconds a client has to disconnect at shutdown", least=0.0)
    readers: Mapping[str, ReaderSettings] = field(default_factory=dict)

    @property
    def groups(self) -> frozenset[str]:
        """The reader groups that clients acknowledge in."""
        return frozenset({ReaderSettings().group, *(each.group for each in self.readers.values())} - {""})

    def reader(self, name: str) -> ReaderSettings:
        """What is behind the name of a reader: where nothing is said, the topic of that name."""
        known = self.readers.get(name) or ReaderSettings(start=self.start)
        return known if known.topic else replace(known, topic=name)

    def meta_bytes(self, name: str) -> int:
        """How long the meta of a message is for this reader."""
        return 0 if self.reader(name).auto_commit else META.size


def configure(table: Mapping[str, object]) -> FujinSettings:
    """The settings of one ``[fujin]`` table."""
    plain = {key: value for key, value in table.items() if key != "readers"}
    stated = table.get("readers", {})
    if not isinstance(stated, Mapping):
        raise ConfigError("readers: expected a table for each reader: [fujin.readers.NAME]")
    return replace(fill(FujinSettings, plain), readers={name: _reader(name, each) for name, each in stated.items()})


def _reader(name: str, table: object) -> ReaderSettings:
    where = f"readers.{name}"
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: expected a table")
    try:
        settings = fill(ReaderSettings, table)
    except ConfigError as error:
        raise ConfigError(f"{where}.{error}")
    for key, value in (("topic", settings.topic or name), ("group", settings.group or "none")):
        try:
            check_name(value)
        except BadName as error:
            raise ConfigError(f"{where}.{key}: {error}")
    return settings
