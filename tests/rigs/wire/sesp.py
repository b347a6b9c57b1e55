"""Conversations of SESP, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streamd.batch import Batch
from streamd.wire.sesp import (
    Command,
    Create,
    Delete,
    Describe,
    List,
    Publish,
    Read,
    Refused,
    Seal,
    Seek,
    Select,
    Status,
    Truncate,
)

# One of each command, runs of them, and lines that are no commands.
CONVERSATION: Sequence[tuple[bytes, Command]] = (
    (b"#topic", Create("topic")),
    (b"@topic", Select("topic")),
    (b">a", Publish(Batch.of([b"a"]))),
    (b">", Publish(Batch.of([b""]))),
    (b">>", Publish(Batch.of([b">"]))),
    (">grüße 🌍\t".encode(), Publish(Batch.of(["grüße 🌍\t".encode()]))),
    (b"<", Read(1)),
    (b"<", Read(1)),
    (b"<x", Refused("InvalidData")),
    (b"<", Read(1)),
    (b"$1001", Seek(1001)),
    (b"$-1", Seek(-1)),
    (b"", Refused("InvalidCommand")),
    (b">not \xff text", Refused("InvalidData")),
    (b">text again", Publish(Batch.of([b"text again"]))),
    (b"?", List()),
    (b"?topic", Describe("topic")),
    (b"%7", Truncate(7)),
    (b"&", Status()),
    (b"=topic", Seal("topic")),
    (b"!topic", Delete("topic")),
    (b"hello", Refused("InvalidCommand")),
    (b"\x00", Refused("InvalidCommand")),
)


def singles(commands: Iterable[Command]) -> list[Command]:
    """The same commands with no two in one."""
    found: list[Command] = []
    for command in commands:
        if isinstance(command, Publish):
            found += [Publish(Batch.of([record])) for record in command.batch.records()]
        elif isinstance(command, Read):
            found += [Read(1)] * command.count
        else:
            found.append(command)
    return found


def unescaped(line: bytes) -> bytes:
    """What a client makes of an escaped line: this is on the page for users, and here it is in Python."""
    found = bytearray()
    at = 0
    while at < len(line):
        if line[at : at + 1] != b"\\":
            found += line[at : at + 1]
            at += 1
        elif line[at + 1 : at + 2] == b"x":
            found.append(int(line[at + 2 : at + 4], 16))
            at += 4
        else:
            found += {b"\\": b"\\", b"n": b"\n", b"r": b"\r"}[line[at + 1 : at + 2]]
            at += 2
    return bytes(found)
