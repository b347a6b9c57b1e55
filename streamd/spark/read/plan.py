"""Ranges of records become partitions: few and large ones, since each costs Spark as much as 100,000 records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from streamd.spark.options import OptionError
from streamd.spark.read.places import Range

if TYPE_CHECKING:
    from streamd.spark.daemon import Storage
    from streamd.spark.options import ReadOptions

PARTITION_BYTES: Final = 64 << 20
"""About the size of a partition where there is enough to read."""
PARTITIONS_MAX: Final = 100_000
"""More of them are a slip: planning alone would take longer than any read."""


class Partition(InputPartition):
    """What one task reads, in this order. It names records, not files: these may have moved when it is read."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(tuple(ranges))

    @property
    def ranges(self) -> tuple[Range, ...]:
        """What to read."""
        ranges: tuple[Range, ...] = self.value
        return ranges


def partitions(storage: Storage, ranges: Sequence[Range], options: ReadOptions) -> list[Partition]:
    """The partitions that read all of these: as many as are asked for, if there are so many records."""
    wanted = options.partitions_min
    size = max(min(PARTITION_BYTES, sum(each.bytes for each in ranges) // wanted), 1)
    pieces = [piece for each in ranges for piece in _cut(storage, each, size)]
    records_max = options.partition_records_max
    packed = _pack(pieces, size, records_max)
    records = sum(each.records for each in ranges)
    if len(packed) < min(wanted, records):
        # Blocks are too large to cut between them: then inside of them.
        fair = max(records // wanted, 1)
        packed = _pack(pieces, size, fair if records_max is None else min(fair, records_max))
    return [Partition(each) for each in packed]


def _cut(storage: Storage, whole: Range, size: int) -> list[Range]:
    """A range in parts of about this size, cut where blocks begin, so that few are read for two tasks."""
    parts = min(-(-whole.bytes // size), PARTITIONS_MAX)
    if parts < 2:
        return [whole]
    return _parts(whole, storage.split_points(whole.id, whole.first, whole.end, parts))


def _by_number(whole: Range, records_max: int) -> list[Range]:
    """A range in parts of at most so many records."""
    parts = -(-whole.records // records_max)
    return _parts(whole, [whole.first + whole.records * part // parts for part in range(1, parts)])


def _parts(whole: Range, points: Sequence[int]) -> list[Range]:
    return [
        whole._replace(first=first, end=end, bytes=whole.bytes * (end - first) // whole.records)
        for first, end in pairwise([whole.first, *points, whole.end])
    ]


def _pack(pieces: Sequence[Range], size: int, records_max: int | None) -> list[list[Range]]:
    """Small pieces together, in order, up to the size of a partition. Large ones are cut where records are counted."""
    if records_max is not None:
        most = sum(-(-piece.records // records_max) for piece in pieces)
        if most > PARTITIONS_MAX:
            raise OptionError(
                f"minPartitions or maxRecordsPerPartition would make {most} partitions, over {PARTITIONS_MAX}: "
                "ask for fewer and larger ones"
            )
        pieces = [part for piece in pieces for part in _by_number(piece, records_max)]
    packed: list[list[Range]] = []
    room = records_room = 0
    for piece in pieces:
        if not packed or piece.bytes > room or (records_max is not None and piece.records > records_room):
            packed.append([])
            room, records_room = size, records_max or 0
        packed[-1].append(piece)
        room -= piece.bytes
        records_room -= piece.records
    return packed
