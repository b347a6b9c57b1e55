"""The batch: many records as two buffers, the one currency between wire, store and Spark.

``lengths`` is an ``array('I')`` with the size of each record, ``payload`` holds the records end to end. Nothing here
loops over records in Python; a caller that wants them one by one calls `Batch.records`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

Buffer = bytes | bytearray | memoryview
"""What a payload may be: anything that can be sliced and written without a copy."""

LENGTH_TYPE: Final = "I"
assert array(LENGTH_TYPE).itemsize == 4


class Batch:
    """Records as one buffer of lengths and one of payload. Treat both as read-only."""

    __slots__ = ("lengths", "payload")

    def __init__(self, lengths: array[int], payload: Buffer) -> None:
        self.lengths = lengths
        self.payload = payload

    @classmethod
    def of(cls, records: Sequence[Buffer]) -> Batch:
        """The batch of these records."""
        if len(records) == 1 and type(records[0]) is bytes:
            return cls.single(records[0])
        return cls(array(LENGTH_TYPE, map(len, records)), b"".join(records))

    @classmethod
    def single(cls, record: Buffer) -> Batch:
        """The batch of one record."""
        size = len(record)
        # Most messages come one at a time and have one of few sizes. Nobody changes an array of lengths.
        return cls(_SINGLE[size] if size < _SINGLE_MAX else array(LENGTH_TYPE, (size,)), record)

    @classmethod
    def joined(cls, batches: Sequence[Batch]) -> Batch:
        """One batch with the records of all of these, in order."""
        if len(batches) == 1:
            return batches[0]
        lengths = array(LENGTH_TYPE)
        for batch in batches:
            lengths.extend(batch.lengths)
        return cls(lengths, b"".join([batch.payload for batch in batches]))

    @property
    def count(self) -> int:
        """How many records there are."""
        return len(self.lengths)

    @property
    def size(self) -> int:
        """The bytes of all records together."""
        return len(self.payload)

    @property
    def common_size(self) -> int | None:
        """The size of each record where all have the same size; else None, also for an empty batch."""
        lengths = self.lengths
        return lengths[0] if lengths and lengths == lengths[:1] * len(lengths) else None

    def records(self) -> list[Buffer]:
        """The records as slices of the payload: copies where that is bytes, views where it is a memoryview."""
        payload = self.payload
        begin = 0
        records: list[Buffer] = []
        add = records.append
        for end in accumulate(self.lengths):
            add(payload[begin:end])
            begin = end
        return records

    def singles(self) -> list[Batch]:
        """Each record as a batch of its own."""
        return [Batch.of([record]) for record in self.records()]

    def part(self, first: int, last: int) -> Batch:
        """Records `first` to `end` (not included), without copying the payload."""
        if first == 0 and last >= len(self.lengths):
            return self
        begin = sum(self.lengths[:first])
        lengths = self.lengths[first:last]
        return Batch(lengths, memoryview(self.payload)[begin : begin + sum(lengths)])

    def fitting(self, first: int, bytes_max: int) -> int:
        """The end of the longest run of whole records from `first` on that takes at most `bytes_max` bytes.

        The run always holds one record, however large, so that a loop over runs comes to an end.
        """
        total = 0
        end = first
        for length in self.lengths[first:]:
            total += length
            if total > bytes_max and end > first:
                break
            end += 1
        return end

    def split(self, bytes_max: int) -> Iterable[Batch]:
        """This batch as several batches of at most `bytes_max` bytes, or of one record."""
        if len(self.payload) <= bytes_max:
            yield self
            return
        first = 0
        while first < len(self.lengths):
            last = self.fitting(first, bytes_max)
            yield self.part(first, last)
            first = last

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch):
            return NotImplemented
        return self.lengths == other.lengths and bytes(self.payload) == bytes(other.payload)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Batch of {self.count} records, {self.size} bytes>"


_SINGLE_MAX: Final = 2048
_SINGLE: Final = [array(LENGTH_TYPE, (size,)) for size in range(_SINGLE_MAX)]
