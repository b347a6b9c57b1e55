"""Rows of a catalog that SQLite can't read any more, out of the bytes of its pages.

A database of SQLite is a row of pages; its ``-wal`` file has newer ones, each behind a header of its own. A leaf of a
table, and every page of an index (which is how tables without a row id are kept), has a head, places of cells, and the
cells: the length of the row, its id where it has one, the types of its columns and their values. Every row of ours has
a checksum (`streamd.store.packs.rowsum`), so a row that is found is right, however the page around it looks. Where the
head of a page is damaged, every byte of it is taken for the beginning of a cell.

https://www.sqlite.org/fileformat2.html tells of all that is read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from streamd.store.disk import IDisk
from streamd.store.packs.rowsum import META, checked, row_sum
from streamd.store.packs.rowsum import CatalogDamaged as NoRow

_PAGE_BYTES: Final = 4096
_FILE_HEADER_BYTES: Final = 100
_WAL_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24
_ROW_BYTES_MAX: Final = 64 << 20

# Kinds of pages with rows in them: where the places of cells begin, and how many bytes of a cell come before its row.
_TABLE_LEAF: Final = 0x0D
_PAGES: Final = {_TABLE_LEAF: (8, 0), 0x0A: (8, 0), 0x02: (12, 4)}
# How a page begins that has no cells with rows in it, and is in order.
_EMPTY: Final = (b"", b"\x05", *[bytes([kind]) for kind in _PAGES])

_COLUMNS: Final = {
    "segments": 11,
    "packs": 5,
    "reached": 4,
    "levels": 4,
    "groups": 5,
    "attributes": 4,
    "extents": 11,
}


class Found(NamedTuple):
    """What the pages hold."""

    meta: dict[str, Any]
    """The newest table `meta` that is whole; empty where there is none."""
    tables: dict[str, list[tuple[Any, ...]]]
    """Rows with their checksums, which are right. Some may be of an earlier time, or there more than once."""


def read_pages(disk: IDisk, path: str) -> Found:
    """All rows in a catalog's file, and in its WAL, whose checksum is right."""
    return _Pages(_read(disk, path), _read(disk, path + "-wal")).rows()


def _read(disk: IDisk, path: str) -> bytes:
    try:
        file = disk.open(path, writable=False)
    except OSError:
        return b""
    try:
        return bytes(file.read(0, file.size()))
    finally:
        file.close()


class _Pages:
    def __init__(self, data: bytes, wal: bytes) -> None:
        self._size = _page_bytes(data[16:18]) or _page_bytes(wal[10:12]) or _PAGE_BYTES
        self._versions: dict[int, list[bytes]] = {}
        for number, at in enumerate(range(0, len(data), self._size), 1):
            self._versions.setdefault(number, []).append(data[at : at + self._size])
        for number, page in self._wal_pages(wal):
            self._versions.setdefault(number, []).append(page)
        self._free = self._free_pages()

    def _wal_pages(self, wal: bytes) -> Iterator[tuple[int, bytes]]:
        """The pages of the WAL, in order. Those of an earlier round, which have another salt, do not count."""
        step = _FRAME_HEADER_BYTES + self._size
        for at in range(_WAL_HEADER_BYTES, len(wal) - step + 1, step):
            if wal[at + 8 : at + 16] == wal[16:24]:
                yield _number(wal, at, 4), wal[at + _FRAME_HEADER_BYTES : at + step]

    def _free_pages(self) -> set[int]:
        """Pages that are not in use: what stands there was removed."""
        found: set[int] = set()
        first = self._versions.get(1, [b""])[-1]
        trunk = _number(first, 32, 4)
        while trunk in self._versions and trunk not in found:
            page = self._versions[trunk][-1]
            found |= {trunk, *[_number(page, 8 + 4 * at, 4) for at in range(min(_number(page, 4, 4), self._size // 4))]}
            trunk = _number(page, 0, 4)
        return found

    def rows(self) -> Found:
        found = Found({}, {table: [] for table in _COLUMNS})
        for number, versions in self._versions.items():
            # The newest one that can be made sense of is what counts.
            for page in reversed(versions if number not in self._free else []):
                places = self._places(page, _begin(number))
                rows = self._right(self._page(page, page[_begin(number)], places)) if places else {}
                meta = {row[0]: row[1] for row in rows if len(row) == len(("key", "value"))}
                if len(rows) < len(places) or (not places and page[_begin(number) :][:1] not in _EMPTY):
                    rows |= self._right(self._page(page, 0, range(len(page))))
                if _is_whole(meta) and meta["covered"] > found.meta.get("covered", 0):
                    found.meta.update(meta)
                for row, table in rows.items():
                    if table is not None:
                        found.tables[table].append(row)
                if rows or not places:
                    break
        return found

    @staticmethod
    def _right(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[Any, ...], str | None]:
        """Those that fit their checksum, and the table that they are of; None: rows of `meta`, which have none."""
        found = {row: _table(row) for row in rows}
        return {row: table for row, table in found.items() if table is not None or row[0] in (*META, "crc")}

    def _places(self, page: bytes, begin: int) -> list[int]:
        """Where the head of a page says that cells begin."""
        head, _ = _PAGES.get(page[begin] if len(page) > begin else 0, (0, 0))
        count = min(_number(page, begin + 3, 2), self._size // 2) if head else 0
        return [_number(page, begin + head + 2 * at, 2) for at in range(count)]

    def _page(self, page: bytes, kind: int, places: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        """The rows at these places, right or not. `kind` is 0 where that of the page can't be trusted."""
        _, before = _PAGES.get(kind, (0, 0))
        for place in places:
            for with_id in (True, False) if not kind else (kind == _TABLE_LEAF,):
                row = self._row(page, place + before, with_id=with_id)
                if row is not None:
                    yield row

    def _row(self, page: bytes, at: int, *, with_id: bool) -> tuple[Any, ...] | None:
        try:
            length, at = _varint(page, at)
            id, at = _varint(page, at) if with_id else (None, at)
            if not 2 < length <= _ROW_BYTES_MAX:
                return None
            columns = _columns(self._payload(page, at, length, with_id=with_id))
        except (IndexError, ValueError):
            return None
        return (id, *columns[1:]) if with_id and columns and columns[0] is None else tuple(columns)

    def _payload(self, page: bytes, at: int, length: int, *, with_id: bool) -> bytes:
        """The bytes of a row; what does not fit into a page goes on in others."""
        usable = self._size
        most = usable - 35 if with_id else (usable - 12) * 64 // 255 - 23
        if length <= most:
            return page[at : at + length]
        least = (usable - 12) * 32 // 255 - 23
        here = least + (length - least) % (usable - 4)
        here = here if here <= most else least
        found = page[at : at + here]
        following = _number(page, at + here, 4)
        while len(found) < length:
            more = self._versions[following][-1] if following in self._versions else b""
            if len(more) < self._size:
                raise ValueError("the rest is not there")
            found += more[4 : 4 + length - len(found)]
            following = _number(more, 0, 4)
        return found


def _begin(number: int) -> int:
    return _FILE_HEADER_BYTES if number == 1 else 0


def _page_bytes(data: bytes) -> int:
    size = int.from_bytes(data, "big")
    size = 65536 if size == 1 else size
    return size if size >= 512 and size & (size - 1) == 0 else 0


def _number(data: bytes, at: int, length: int) -> int:
    return int.from_bytes(data[at : at + length], "big")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends."""
    value = 0
    for each in range(at, at + 8):
        value = value << 7 | data[each] & 0x7F
        if data[each] < 0x80:
            return value, each + 1
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >= 1 << 63 else value, at + 9


def _columns(row: bytes) -> list[Any]:
    """The values of a row. ValueError or IndexError where it is none."""
    head, at = _varint(row, 0)
    types = []
    while at < head:
        kind, at = _varint(row, at)
        types.append(kind)
    if at != head or len(types) not in (2, *_COLUMNS.values()):
        raise ValueError("no row of ours")
    values: list[Any] = []
    for kind in types:
        if kind in (0, 8, 9):
            values.append(None if kind == 0 else kind - 8)
            continue
        if kind in (7, 10, 11) or kind < 0:
            raise ValueError("no type of ours")
        length = (0, 1, 2, 3, 4, 6, 8)[kind] if kind < 12 else (kind - 12) // 2
        data = row[at : at + length]
        if len(data) != length:
            raise ValueError("cut short")
        at += length
        if kind < 12:
            values.append(int.from_bytes(data, "big", signed=True))
        else:
            values.append(data if kind % 2 == 0 else data.decode())
    return values


def _table(row: tuple[Any, ...]) -> str | None:
    """The table whose checksum fits a row."""
    for table, columns in _COLUMNS.items():
        if len(row) == columns and isinstance(row[0], int):
            with suppress(NoRow):
                checked("", table, row)
                return table
    return None


def _is_whole(meta: dict[str, Any]) -> bool:
    try:
        return bool(row_sum("meta", [meta[key] for key in META]) == meta["crc"])
    except (KeyError, TypeError, AttributeError):
        return False
