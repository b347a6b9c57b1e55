"""What the journal tells of a catalog that does not say it: how far that goes, and where segments stood there."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

from streamd.store.directory import JOURNAL
from streamd.store.disk import IDisk
from streamd.store.journal.committed import read_committed
from streamd.store.journal.frame import FILE_HEADER, FileHeader, Header, Kind, decode_file_header
from streamd.store.journal.writer import file_name
from streamd.store.packs.fold import journal_numbers
from streamd.store.records.offsets import span
from streamd.store.upkeep.repair.journal import entries

Covered = tuple[int, int, int]
"""A sequence number, a journal file, a timestamp: how far a catalog goes."""

_WITH_SEGMENT: Final = frozenset(Kind) - {Kind.CREATE, Kind.PAYLOAD, Kind.FANOUT, Kind.LEFT_OUT}


class Place(NamedTuple):
    """Where a segment stood at the beginning of some journal files."""

    number: int | None = None
    """None where they speak of it, and do not tell."""
    offset: int = 0
    is_hidden: bool = False


class Clues:
    """The journal of a store, as far as it can be read."""

    def __init__(self, disk: IDisk, directory: str, store: bytes) -> None:
        self._disk = disk
        self._home = directory
        self._directory = os.path.join(directory, JOURNAL)
        self._store = store
        self._numbers = journal_numbers(disk, self._directory)

    def begin(self) -> int | None:
        """The sequence with which the first file that can be read begins."""
        headers = [header for number in self._numbers if (header := self._header(number)) is not None]
        return headers[0].sequence if headers else None

    def covered(self, ends: dict[int, int]) -> Covered:
        """How far a catalog with these segments and ends of them goes: to the first file that has something new."""
        for number in self._numbers:
            header = self._header(number)
            if header is not None and not self._is_folded(number, ends):
                return header.sequence, number - 1, header.timestamp
        # All of it is folded. Numbers that were given are not given again.
        position = read_committed(self._disk, self._home, self._store)
        highest = max([*ends, 0 if position is None else position.committed])
        return highest + 1, max(self._numbers, default=0), 0

    def _header(self, number: int) -> FileHeader | None:
        file = self._disk.open(os.path.join(self._directory, file_name(number)), writable=False)
        try:
            header = decode_file_header(bytes(file.read(0, FILE_HEADER.size)))
        finally:
            file.close()
        return header if isinstance(header, FileHeader) and header.number == number else None

    def _is_folded(self, number: int, ends: dict[int, int]) -> bool:
        """Whether the catalog has what a file brings: segments that it makes, or records that it appends."""
        for header, _ in self._entries([number]):
            if header.kind == Kind.CREATE and header.segment in ends:
                return True
            if header.kind == Kind.APPEND and header.segment in ends:
                return header.number + header.count <= ends[header.segment]
        return False

    def places(self, after: int) -> dict[int, Place]:
        """Segments that files behind `after` speak of and do not make, and where they stood there."""
        found: dict[int, Place] = {}
        made: set[int] = set()
        # What was fanned out to a segment before an entry tells its number.
        before: dict[int, tuple[int, int]] = {}
        payload = (0, 0)
        for header, body in self._entries([number for number in self._numbers if number > after]):
            for id in _named(header, body):
                is_source = header.kind == Kind.PUBLISH and id != header.segment
                found[id] = found.get(id, Place())._replace(**({"is_hidden": True} if is_source else {}))
            if header.kind == Kind.CREATE:
                made.add(header.segment)
            elif header.kind == Kind.PAYLOAD:
                payload = header.count, span(header.tag, header.count, header.length - 4 * header.count)
            elif header.kind == Kind.FANOUT:
                for id in _named(header, body):
                    records, size = before.get(id, (0, 0))
                    before[id] = records + payload[0], size + payload[1]
            elif header.kind in (Kind.APPEND, Kind.PUBLISH) and found[header.segment].number is None:
                records, size = before.get(header.segment, (0, 0))
                place = found[header.segment]
                found[header.segment] = place._replace(number=header.number - records, offset=header.offset - size)
        return {id: place for id, place in found.items() if id not in made}

    def _entries(self, numbers: list[int]) -> Iterator[tuple[Header, memoryview]]:
        for number in numbers:
            file = self._disk.open(os.path.join(self._directory, file_name(number)), writable=False)
            try:
                for entry in entries(file, FILE_HEADER.size):
                    yield entry.header, entry.body
            finally:
                file.close()


def _named(header: Header, body: memoryview) -> list[int]:
    """The segments that an entry speaks of."""
    found = [header.segment] if header.kind in _WITH_SEGMENT else []
    if header.kind in (Kind.FANOUT, Kind.LEFT_OUT, Kind.PUBLISH):
        ids = array("Q")
        ids.frombytes(body[: len(body) // 8 * 8])
        found += ids
    return found
