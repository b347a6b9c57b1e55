"""What a simulated disk is made of: files and directories, each as programs see it and as it is on the medium."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import NamedTuple

SECTOR_BYTES = 512
WORD_BYTES = 8


class Write(NamedTuple):
    """Bytes that go somewhere in a file."""

    position: int
    data: bytes


class Resize(NamedTuple):
    """A length that a file gets: at least that, or where `is_cut`, just that."""

    length: int
    is_cut: bool


def _put(content: bytearray, position: int, data: bytes) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _apply(content: bytearray, change: Write | Resize) -> None:
    if isinstance(change, Write):
        _put(content, *change)
    elif change.length > len(content):
        content.extend(bytes(change.length - len(content)))
    elif change.is_cut:
        del content[change.length :]


def _tear(content: bytearray, write: Write, rng: Random) -> None:
    """Let something of a write reach the medium."""
    position, data = write
    end = position + len(data)
    fate = rng.randrange(7)
    if fate <= 1:
        kept = []
    elif fate == 2:
        kept = [(position, end)]
    elif fate == 3:
        kept = [(position, rng.randint(position, end))]
    elif fate == 4:
        kept = [(rng.randint(position, end), end)]
    else:
        edges = [position, *range((position // SECTOR_BYTES + 1) * SECTOR_BYTES, end, SECTOR_BYTES), end]
        kept = [pair for pair in pairwise(edges) if rng.random() < 0.5]
    if rng.random() < 0.5 and len(content) < end:
        content.extend(bytes(end - len(content)))
    for first, last in kept:
        _put(content, first, data[first - position : last - position])
    if fate == 6 and data:
        first = rng.randint(position, end - 1)
        _put(content, first, rng.randbytes(rng.randint(1, min(end - first, SECTOR_BYTES))))


class File:
    """A file, whatever its name is."""

    def __init__(self, durable: bytes | bytearray = b"") -> None:
        self.content = bytearray(durable)
        self.durable = bytearray(durable)
        self.pending: list[Write | Resize] = []
        self.broken: list[tuple[int, int]] = []
        self.is_mapped = False

    def change(self, change: Write | Resize) -> None:
        if self.durable is self.content:
            self.durable = bytearray(self.content)
        _apply(self.content, change)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def after_power_cut(self, rng: Random, fate: str) -> File:
        content = bytearray(self.durable)
        for change in self.pending if fate != "lost" else ():
            if fate == "kept":
                _apply(content, change)
            elif isinstance(change, Write):
                _tear(content, change, rng)
            elif rng.random() < 0.5:
                _apply(content, change)
        for position in range(0, len(content), WORD_BYTES) if self.is_mapped and fate != "lost" else ():
            if fate == "kept" or rng.random() < 0.5:
                content[position : position + WORD_BYTES] = self.content[position : position + WORD_BYTES]
        after = File(content)
        after.broken = list(self.broken)
        return after

    def copy(self) -> File:
        copy = File()
        copy.content[:] = self.content
        copy.durable[:] = self.durable
        copy.pending = list(self.pending)
        copy.broken = list(self.broken)
        copy.is_mapped = self.is_mapped
        return copy


class NameChange(NamedTuple):
    """A change of a directory: one name goes, one name comes."""

    gone: str | None
    come: str | None
    node: File | Directory | None

    def apply(self, entries: dict[str, File | Directory]) -> None:
        if self.gone is not None:
            entries.pop(self.gone, None)
        if self.come is not None and self.node is not None:
            entries[self.come] = self.node


class Directory:
    def __init__(self) -> None:
        self.entries: dict[str, File | Directory] = {}
        self.durable: dict[str, File | Directory] = {}
        self.pending: list[NameChange] = []

    def change(self, change: NameChange) -> None:
        change.apply(self.entries)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def after_power_cut(self, rng: Random, fate: str) -> Directory:
        entries = dict(self.durable)
        lost: set[str | None] = set()
        for change in self.pending if fate != "lost" else ():
            names = {change.gone, change.come} - {None}
            if names & lost or (fate != "kept" and rng.random() < 0.5):
                lost |= names
            else:
                change.apply(entries)
        after = Directory()
        after.entries = {name: node.after_power_cut(rng, fate) for name, node in entries.items()}
        after.durable = dict(after.entries)
        return after

    def copy(self) -> Directory:
        copies: dict[int, File | Directory] = {}

        def one(node: File | Directory) -> File | Directory:
            if id(node) not in copies:
                copies[id(node)] = node.copy()
            return copies[id(node)]

        copy = Directory()
        copy.entries = {name: one(node) for name, node in self.entries.items()}
        copy.durable = {name: one(node) for name, node in self.durable.items()}
        copy.pending = [each._replace(node=each.node and one(each.node)) for each in self.pending]
        return copy

    def size(self) -> int:
        return sum(len(each.content) if isinstance(each, File) else each.size() for each in self.entries.values())
