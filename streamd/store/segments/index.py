"""The extents of one segment that are not in packs yet, in memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from streamd.store.records.extent import BROADCAST, Extent

_ROW: Final = 6
_POSITION_BITS: Final = 40
_POSITION_MASK: Final = (1 << _POSITION_BITS) - 1


class Index:
    """The extents of one segment, ascending, as one flat array: 48 bytes each, whatever they hold."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        # number, offset, timestamp, file | position, count | length, crc | tag;
        # where broadcast records are meant: …, file | number there, offset there, count | tag
        self._rows: array[int] = array("Q")

    def __len__(self) -> int:
        return len(self._rows) // _ROW

    def add(self, extent: Extent) -> None:
        """Take the next extent up."""
        number, offset, timestamp, file, position, length, count, crc, tag = extent
        place = file << _POSITION_BITS | position
        if tag == BROADCAST:
            self._rows.extend((number, offset, timestamp, place, length, count << 32 | tag))
        else:
            self._rows.extend((number, offset, timestamp, place, count << 32 | length, crc << 32 | tag))

    def extent(self, row: int) -> Extent:
        """The extent in this row."""
        number, offset, timestamp, place, sizes, rest = self._rows[row * _ROW : (row + 1) * _ROW]
        if rest & BROADCAST:
            file, first = place >> _POSITION_BITS, place & _POSITION_MASK
            return Extent(number, offset, timestamp, file, first, sizes, rest >> 32, 0, BROADCAST)
        return Extent(
            number,
            offset,
            timestamp,
            place >> _POSITION_BITS,
            place & _POSITION_MASK,
            sizes & 0xFFFFFFFF,
            sizes >> 32,
            rest >> 32,
            rest & 0xFFFFFFFF,
        )

    def row_of_number(self, number: int) -> int:
        """The row of the extent that holds record `number`, or -1 where that lies before the first."""
        rows = self._rows
        return bisect_right(range(len(self)), number, key=lambda row: rows[row * _ROW]) - 1

    def row_of_offset(self, offset: int) -> int:
        """The row of the extent that holds this offset, or -1 where that lies before the first."""
        rows = self._rows
        return bisect_right(range(len(self)), offset, key=lambda row: rows[row * _ROW + 1]) - 1

    def row_of_timestamp(self, timestamp: int) -> int:
        """The first row with this timestamp or a later one; the number of rows where there is none."""
        rows = self._rows
        return bisect_left(range(len(self)), timestamp, key=lambda row: rows[row * _ROW + 2])

    def rows_up_to_file(self, file: int) -> int:
        """How many rows name this file or an earlier one. Files rise with rows."""
        rows = self._rows
        return bisect_right(range(len(self)), file, key=lambda row: rows[row * _ROW + 3] >> _POSITION_BITS)

    def first_broadcast(self) -> int | None:
        """The first broadcast record that a row means, by its number there."""
        rows = self._rows
        # The array is short: what is folded is not in it.
        for at in range(0, len(rows), _ROW):
            if rows[at + 5] & BROADCAST:
                return rows[at + 3] & _POSITION_MASK
        return None

    def drop_rows(self, rows: int) -> None:
        """Forget the first rows: what they name is truncated."""
        del self._rows[: rows * _ROW]
