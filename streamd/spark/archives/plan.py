"""What an archive run writes for a topic: new records in files of a good size, with small ones at the end merged in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from streamd.spark.archives.delta import File
from streamd.spark.read.places import Range

if TYPE_CHECKING:
    from streamd.spark.daemon import Storage


@dataclass(frozen=True)
class Output:
    """A file to write: the rows of some files that it takes the place of, and behind them new records."""

    merged: tuple[File, ...]
    new: Range

    @property
    def first(self) -> int:
        """The first record."""
        return self.merged[0].first if self.merged else self.new.first


def plan(storage: Storage, files: Sequence[File], new: Range, file_bytes: int) -> list[Output]:
    """The files for new records, each of about so many bytes of them.

    The last files of the table are merged into the first new one as long as each is no larger than what follows it. So
    runs that bring little leave few files, and a record is written again only as often as its file doubles.
    """
    average = max(new.bytes // new.records, 1)
    parts = -(-new.bytes // file_bytes)
    points = storage.split_points(new.id, new.first, new.end, parts) if parts > 1 else []
    ranges = [
        new._replace(first=first, end=end, bytes=average * (end - first))
        for first, end in pairwise([new.first, *points, new.end])
    ]
    merged: list[File] = []
    rows = ranges[0].records
    for file in reversed(files):
        if file.rows > rows or (file.rows + rows) * average > file_bytes:
            break
        merged.insert(0, file)
        rows += file.rows
    return [Output(tuple(merged), ranges[0]), *(Output((), part) for part in ranges[1:])]
