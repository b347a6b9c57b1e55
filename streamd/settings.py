"""The values an operator can set, as frozen dataclasses.

Each field is one key of ``streamd.toml``: its default here is the default there, its metadata says what it is for and
which values are allowed. `streamd.tables` fills these from a file; nothing else needs to know that a file exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

Check = Callable[[str], object]
"""Raises ValueError where a string can't be used; the text says why."""


def setting(
    default: Any,
    doc: str,
    *,
    least: float | None = None,
    choices: tuple[str, ...] | None = None,
    check: Check | None = None,
) -> Any:
    """A dataclass field with its documentation, its smallest value, its choices, and a further check."""
    return field(default=default, metadata={"doc": doc, "least": least, "choices": choices, "check": check})


def required(doc: str, check: Check | None = None) -> Any:
    """A dataclass field without a default."""
    return field(metadata={"doc": doc, "check": check})


@dataclass(frozen=True)
class LogSettings:
    """``[log]``: what the daemon says of itself."""

    format: str = setting("text", "text, or json for one JSON object a line", choices=("text", "json"))
    level: str = setting(
        "info", "the least level that is logged", choices=("debug", "info", "warn", "error", "critical")
    )


@dataclass(frozen=True)
class StoreSettings:
    """``[store]``: how the journal is written, and what recovery keeps."""

    sync: str = setting(
        "always",
        "when a write is acknowledged: always after fdatasync; interval or never before it",
        choices=("always", "interval", "never"),
    )
    sync_interval_ms: int = setting(100, "with sync = interval: milliseconds between two fdatasync calls", least=1)
    sync_in_place_us: int = setting(
        1000,
        "with sync = always: small commits that take fewer microseconds are not left to another thread; 0: all are",
        least=0,
    )
    commit_ms: int = setting(
        10, "milliseconds that a commit should take: a slow disk gets smaller ones, so that nobody waits long", least=1
    )
    journal_file_bytes: int = setting(
        64 << 20, "size at which a journal file is closed and the next begun", least=1 << 20
    )
    reserve_bytes: int = setting(
        1 << 20,
        "room at the end of a journal file for removals on a full disk; at most a quarter of the file",
        least=4096,
    )
    open_files_max: int = setting(256, "files of the store kept open for reading", least=4)
    torn_bytes_max: int = setting(64 << 20, "how much of a torn tail recovery keeps beside the journal", least=0)
    retention_seconds: float = setting(10.0, "seconds between two looks at what is to be dropped", least=0.1)
    hidden_seconds_max: float = setting(
        86400.0, "a hidden segment that nobody wrote to for so long is deleted; 0: never", least=0
    )


@dataclass(frozen=True)
class RetentionRule:
    """``[[retention]]``: what is kept of segments whose name matches the pattern. 0 sets no limit."""

    pattern: str = setting("*", "which segments: a shell pattern (* ? [a-z]) for the whole name")
    bytes_max: int = setting(0, "bytes kept of each, counted as offsets are", least=0)
    records_max: int = setting(0, "records kept of each", least=0)
    age_seconds_max: float = setting(0.0, "records older than this go", least=0)
    idle_seconds_max: float = setting(0.0, "a segment that nobody wrote to for so long is deleted", least=0)
    archived_only: bool = setting(False, "true: nothing goes that is not archived, whatever its limit")
    archive_group: str = setting("archive", "with archived_only: the reader group whose position says what is archived")


@dataclass(frozen=True)
class GroupRule:
    """``[[groups]]``: what becomes of messages that no reader of a group acknowledges. The first that fits counts."""

    topic: str = setting("*", "which topics: a shell pattern (* ? [a-z]) for the whole name")
    group: str = setting("*", "which of their reader groups: a shell pattern for the whole name")
    deliveries_max: int = setting(
        0, "a message that was delivered so often, and not acknowledged, goes to dead_letter; 0: no limit", least=0
    )
    retry_seconds: tuple[float, ...] = setting(
        (), "pauses before the second delivery, the third and so on; the last one counts for all further ones", least=0
    )
    dead_letter: str = setting("", "with deliveries_max: the topic that takes such messages; made where it is missing")


RIGHTS: Final = ("read", "write", "create", "admin")
"""What a rule of access can allow."""


@dataclass(frozen=True)
class AccessRule:
    """``[[access]]``: what some peers may do with the topics whose name matches a pattern. 0 sets no limit."""

    who: str = setting("", "which peers: cert:NAME, user:NAME, net:ADDRESS/BITS or anyone")
    allow: tuple[str, ...] = setting((), "what they may do: read, write, create, admin", choices=RIGHTS)
    topics: tuple[str, ...] = setting(("*",), "with which topics: shell patterns (* ? [a-z]) for the whole name")
    groups: tuple[str, ...] = setting((), "with read: the reader groups of these topics that they may move, by name")
    topics_max: int = setting(0, "create is refused where so many topics fit the patterns", least=0)
    topic_bytes_max: int = setting(0, "a write that takes a topic over so many bytes is refused", least=0)
    messages_per_second_max: float = setting(
        0.0, "messages a second that all these peers together may write; more wait", least=0
    )
    bytes_per_second_max: float = setting(
        0.0, "bytes a second, both ways, for all these peers together; more wait", least=0
    )


@dataclass(frozen=True)
class Limits:
    """``[limits]``: what one peer, and all peers together, may ask of the daemon."""

    message_bytes_max: int = setting(8 << 20, "largest message of any protocol", least=1)
    line_bytes_max: int = setting(1 << 20, "longest line of a line protocol", least=64)
    connections_max: int = setting(10_000, "connections of all protocols together; more are closed at once", least=1)
    address_connections_max: int = setting(
        0, "connections from one address; more are closed at once; 0: no limit", least=0
    )
    connection_messages_per_second_max: float = setting(
        0.0, "messages a second that one connection may write; more wait; 0: no limit", least=0
    )
    connection_bytes_per_second_max: float = setting(
        0.0, "bytes a second, both ways, of one connection; more wait; 0: no limit", least=0
    )
    buffered_bytes_max: int = setting(
        64 << 20, "bytes buffered for all connections together before reading pauses", least=1 << 20
    )
    connection_buffered_bytes_max: int = setting(
        4 << 20, "bytes of requests in progress on one connection before it is no longer read", least=1 << 16
    )
    frame_seconds_max: float = setting(30.0, "seconds a peer may take to finish what it began to send", least=0.1)
    reply_seconds_max: float = setting(
        30.0, "seconds a peer may take nothing of what it asked for while others wait for that", least=0.1
    )
    drain_seconds_max: float = setting(10.0, "seconds a connection gets to take its replies at shutdown", least=0.0)
    outstanding_records_max: int = setting(
        10_000, "records that one reader of a group may have before it acknowledges some", least=1
    )
    outstanding_bytes_max: int = setting(16 << 20, "their bytes together; who is below it gets the next ones", least=1)
    group_outstanding_records_max: int = setting(
        100_000, "records that all readers of a group together may have before they acknowledge some", least=1
    )
    group_outstanding_bytes_max: int = setting(256 << 20, "their bytes together", least=1)
    ack_seconds_max: float = setting(
        30.0, "seconds a reader gets to acknowledge before its records go to another one", least=0.1
    )
