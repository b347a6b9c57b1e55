"""``[fujin]``: the settings of Fujin, and how reader names become topics and groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from streamd.interfaces import ConfigError
from streamd.settings import setting
from streamd.store import BadName
from streamd.store.names import check_name
from streamd.tables import fill
from streamd.wire.fujin_replies import META

_STARTS: Final = ("earliest", "latest")


def _check_if_given(name: str) -> None:
    if name:
        check_name(name)


@dataclass(frozen=True)
class ReaderSettings:
    """``[fujin.readers.NAME]``: the topic and the group of a reader that connects by this name."""

    topic: str = setting("", "the topic it reads; the reader's own name where that is empty", check=_check_if_given)
    group: str = setting(
        "fujin", "the reader group it is in; an empty name gives it all messages", check=_check_if_given
    )
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
        return frozenset({ReaderSettings().group, *(reader.group for reader in self.readers.values())} - {""})

    def reader(self, name: str) -> ReaderSettings:
        """The settings for the name of a reader: without a table of its own it reads the topic of that name."""
        known = self.readers.get(name) or ReaderSettings(start=self.start)
        return known if known.topic else replace(known, topic=name)

    def meta_bytes(self, name: str) -> int:
        """The length of the meta of a message for this reader."""
        return 0 if self.reader(name).auto_commit else META.size


def configure(table: Mapping[str, object]) -> FujinSettings:
    """The settings of one ``[fujin]`` table."""
    settings = fill(FujinSettings, table)
    for name, reader in settings.readers.items():
        try:
            check_name(reader.topic or name)
        except BadName as error:
            raise ConfigError(str(error), "readers", name, "topic")
    return settings
