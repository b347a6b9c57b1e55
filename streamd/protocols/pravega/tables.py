"""Table segments: keys with versions over an ordinary segment, whose records are the puts and removals in their order.

The index, which says where the record of each key is, is made when a table is first used, and kept for the tables that
were used last. Values stay on disk. A record is::

    kind u8 (1 put, 0 remove) | version i64 | length of the key u32 | key | value

The version of a key is the number that the record of its put had at first. Puts that still count are written again,
with their version, when most of a table's records do not count any more, and the rest is truncated.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from streamd.batch import Batch
from streamd.connections.core import Core
from streamd.protocols.pravega.names import TABLE, TAG_TABLE, is_table
from streamd.store import NoSuchSegment, RequestTooLarge, Run, Segment, Store, StoreError
from streamd.wire.pravega.tables import ABSENT, UNCONDITIONAL, Entry, Key

_RECORD: Final = Struct(">BqI")
assert _RECORD.size == 13
_PUT, _REMOVE = 1, 0

# What is read of a table at once.
_READ_BYTES: Final = 256 << 10

# Records that are kept although they do not count any more, for those who read what has changed.
_KEPT: Final = 1000

# Keys of all tables whose index is kept in memory.
_KEYS_IN_MEMORY: Final = 1_000_000

KEYS_MAX: Final = 1_000_000
"""How many keys one table may have: its index is in memory while it is used."""


class BadVersion(StoreError):
    """A key has not the version that it must have for the change."""


class NotEmpty(StoreError):
    """A table that was to be deleted only if empty is not."""


class Found(NamedTuple):
    """Puts in the order of the records, where to go on, and whether that is the end."""

    entries: list[Entry]
    position: int
    at_end: bool
    is_new: bool
    """Whether records below the position that was asked for are gone."""


class Place(NamedTuple):
    """Where the value of a key is, and its version."""

    version: int
    number: int


class Table:
    """One table, with its index."""

    _log = Logger()

    def __init__(self, store: Store, segment: Segment) -> None:
        self._store = store
        self.segment = segment
        self._places: dict[bytes, Place] = {}
        self._compacting = False
        self.is_broken = False
        """Whether a change could not be stored: the index is ahead of the disk, and has to be made anew."""

    def __len__(self) -> int:
        return len(self._places)

    async def load(self) -> None:
        """Make the index."""
        number = self.segment.first_number
        while number < self.segment.number:
            runs = await self._store.read(self.segment, number, bytes_max=_READ_BYTES)
            for at, kind, version, key, _ in _records(runs):
                if kind == _PUT:
                    self._places[key] = Place(version, at)
                else:
                    self._places.pop(key, None)
            number = runs[-1].number + runs[-1].batch.count

    def update(self, entries: Sequence[Entry], offset: int) -> tuple[Deferred[object], list[int]]:
        """Put entries, where all keys have their versions; what to wait for, and the new versions."""
        self._check([entry.key for entry in entries], offset)
        if len(self._places) + len(entries) > KEYS_MAX:
            raise RequestTooLarge(f"a table has at most {KEYS_MAX} keys")
        first = self.segment.next_number
        versions = [first + at for at in range(len(entries))]
        stored = self._append(
            [_record(_PUT, version, *entry) for version, entry in zip(versions, entries, strict=True)]
        )
        for version, (key, _) in zip(versions, entries, strict=True):
            self._places[key.data] = Place(version, version)
        return stored, versions

    def remove(self, keys: Sequence[Key], offset: int) -> Deferred[object]:
        """Remove keys, where all have their versions."""
        self._check(keys, offset)
        stored = self._append([_record(_REMOVE, 0, key, b"") for key in keys])
        for key in keys:
            self._places.pop(key.data, None)
        return stored

    def _check(self, keys: Sequence[Key], offset: int) -> None:
        if offset >= 0 and offset != self.segment.next_number:
            raise BadVersion(f"the table ends at {self.segment.next_number}, not at {offset}")
        for key in keys:
            place = self._places.get(key.data)
            if key.version not in (UNCONDITIONAL, ABSENT if place is None else place.version):
                raise BadVersion(f"a key has version {ABSENT if place is None else place.version}, not {key.version}")

    def _append(self, records: list[bytes]) -> Deferred[object]:
        stored: Deferred[Any] = self._store.append(self.segment, Batch.of(records), tag=TAG_TABLE)
        stored.addErrback(self._failed)
        if self.segment.next_number - self.segment.first_number > 2 * len(self._places) + 2 * _KEPT:
            self._compact()
        return stored

    def _failed(self, failure: object) -> object:
        self.is_broken = True
        return failure

    async def get(self, keys: Sequence[Key]) -> list[Entry]:
        """The entries of some keys, on disk; a key that is not there has version ABSENT and no value."""
        places = [self._places.get(key.data) for key in keys]
        await self._committed(max([place.number for place in places if place is not None], default=-1))
        entries: list[Entry] = []
        for key, place in zip(keys, places, strict=True):
            value = b"" if place is None else await self._value(key.data, place)
            entries.append(Entry(Key(key.data, ABSENT if place is None else place.version), value))
        return entries

    async def _value(self, key: bytes, place: Place) -> bytes:
        runs = await self._store.read(self.segment, place.number, bytes_max=1, records_max=1)
        ((_, _, _, _, value),) = _records(runs)
        return value

    async def scan(self, position: int, count: int) -> Found:
        """The next puts from a position on: at least one where there is one.

        One that is not the last put of its key is there, too, unless it was dropped: who follows a table sees each.
        """
        first = self.segment.first_number
        number = max(position, first)
        entries: list[Entry] = []
        while number < self.segment.number and not entries:
            runs = await self._store.read(
                self.segment, number, bytes_max=_READ_BYTES, records_max=max(1, min(count, 10_000))
            )
            entries += [Entry(Key(key, version), value) for _, kind, version, key, value in _records(runs) if kind]
            number = runs[-1].number + runs[-1].batch.count
        return Found(entries, number, number >= self.segment.number, 0 < position < first)

    def holds(self, entry: Entry) -> bool:
        """Whether this is what the key has now."""
        place = self._places.get(entry.key.data)
        return place is not None and place.version == entry.key.version

    async def _committed(self, number: int) -> None:
        """Wait until this record is on disk: before that nobody is shown it."""
        if number >= self.segment.number:
            await self._store.wait(self.segment, number)

    def _compact(self) -> None:
        if not self._compacting:
            self._compacting = True
            Deferred.fromCoroutine(self._rewrite()).addErrback(
                lambda failure: self._log.failure("a table could not be compacted", failure)
            )

    async def _rewrite(self) -> None:
        """Write the old puts that still count again, and drop all old records."""
        try:
            number, end = self.segment.first_number, self.segment.number - _KEPT
            while number < end and not self.segment.claimed_deleted:
                runs = await self._store.read(
                    self.segment, number, bytes_max=_READ_BYTES, records_max=min(end - number, 1000)
                )
                # From here to the append nobody else has a turn: what counts now counts then.
                counting = [
                    (key, version, _record(_PUT, version, Key(key, 0), value))
                    for at, kind, version, key, value in _records(runs)
                    if kind == _PUT and self._places.get(key) == (version, at)
                ]
                number = runs[-1].number + runs[-1].batch.count
                if counting and not self.segment.claimed_deleted:
                    first = self.segment.next_number
                    stored = self._store.append(
                        self.segment, Batch.of([record for _, _, record in counting]), tag=TAG_TABLE
                    )
                    for at, (key, version, _) in enumerate(counting):
                        self._places[key] = Place(version, first + at)
                    await stored
            if not self.segment.claimed_deleted:
                await self._store.truncate(self.segment, number)
        except StoreError:
            # The disk is full, or the table is gone. What was written again counts once, wherever it is read.
            self.is_broken = True
        finally:
            self._compacting = False


class Tables:
    """The tables of a store that were used last."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._loaded: OrderedDict[Segment, Table] = OrderedDict()
        self._loading: dict[Segment, list[Deferred[Table]]] = {}

    @classmethod
    def of(cls, core: Core) -> Tables:
        """Those of a store."""
        tables: Tables | None = core.shared.get(("pravega", "tables"))
        if tables is None:
            tables = core.shared["pravega", "tables"] = cls(core)
        return tables

    def create(self, name: str) -> Deferred[Any]:
        """A new table: a segment that says so of itself, in the same commit."""
        with self._store.together():
            created: Deferred[Any] = self._store.create(name)
            segment = self._store.find_claimed(name)
            if segment is not None and not segment.committed:
                # It fails with the creation, which is waited for.
                self._store.set_attribute(segment, TABLE, b"\0").addErrback(lambda failure: failure.trap(StoreError))
        return created

    def loaded(self, name: str) -> Table | Deferred[Table]:
        """The table of that name, which may be on its way to the disk: at once where its index is in memory."""
        segment = self._store.find_claimed(name)
        if segment is None or not is_table(segment):
            raise NoSuchSegment(name)
        table = self._loaded.get(segment)
        if table is not None and not table.is_broken:
            self._loaded.move_to_end(segment)
            return table
        waiting: Deferred[Table] = Deferred()
        self._loading.setdefault(segment, []).append(waiting)
        if len(self._loading[segment]) == 1:
            table = Table(self._store, segment)
            Deferred.fromCoroutine(table.load()).addCallbacks(
                lambda _: self._ready(table), lambda failure: self._tell(segment, failure)
            )
        return waiting

    def _ready(self, table: Table) -> None:
        self._loaded[table.segment] = table
        for segment in [each for each in self._loaded if each.deleted]:
            del self._loaded[segment]
        while len(self._loaded) > 1 and sum(map(len, self._loaded.values())) > _KEYS_IN_MEMORY:
            self._loaded.popitem(last=False)
        self._tell(table.segment, table)

    def _tell(self, segment: Segment, result: object) -> None:
        for waiting in self._loading.pop(segment, []):
            waiting.callback(result)  # type: ignore[arg-type]


def _record(kind: int, version: int, key: Key, value: bytes) -> bytes:
    return _RECORD.pack(kind, version, len(key.data)) + key.data + value


def _records(runs: Sequence[Run]) -> Iterator[tuple[int, int, int, bytes, bytes]]:
    """Number, kind, version, key and value of each record of a table."""
    for run in runs:
        if run.tag != TAG_TABLE:
            continue
        for at, record in enumerate(run.batch.records()):
            kind, version, size = _RECORD.unpack_from(record)
            end = _RECORD.size + size
            yield run.number + at, kind, version, bytes(record[_RECORD.size : end]), bytes(record[end:])
