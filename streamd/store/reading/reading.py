"""Reading as the store offers it: records by number, offset and time, and waiting at the tail."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from streamd.batch import Buffer
from streamd.store.commit.tail import wait
from streamd.store.reading.plan import Run
from streamd.store.reading.reader import Admit, Reader
from streamd.store.reading.recent import FEW_RECORDS
from streamd.store.records.fetch import Want
from streamd.store.segments.registry import Segments
from streamd.store.segments.segment import Segment


class Reading:
    """What `Store` inherits."""

    _segments: Segments
    _reader: Reader

    def read(
        self,
        segment: Segment,
        number: int,
        *,
        bytes_max: int,
        records_max: int = 1 << 62,
        admit: Admit | None = None,
    ) -> Deferred[list[Run]]:
        """Committed records from `number` on: at least one where there is one, then up to the limits.

        Nothing at the tail. RecordsTruncated where they are gone. `admit` is asked for room where the first one is
        large, since it is read whole, whatever the limits are.
        """
        return self._reader.read(segment, Want(number, None, bytes_max, records_max), admit)

    def recent(self, segment: Segment, number: int, *, bytes_max: int, records_max: int) -> Run | None:
        """What `read` would give, at once, where few records are wanted of those that were read just now. Else None."""
        if segment.deleted or number < segment.first_number or records_max > FEW_RECORDS:
            return None
        return self._reader.recent.find(segment.id, number, records_max, bytes_max)

    def recent_one(self, segment: Segment, number: int) -> tuple[int, Buffer] | None:
        """The tag and the bytes of one record, where it was read just now. None where the files have to be asked."""
        if segment.deleted or number < segment.first_number:
            return None
        return self._reader.recent.one(segment.id, number)

    def read_at(
        self,
        segment: Segment,
        offset: int,
        *,
        bytes_max: int,
        records_max: int = 1 << 62,
        admit: Admit | None = None,
    ) -> Deferred[list[Run]]:
        """Like `read`, from an offset on: the first run begins with the record that holds it."""
        return self._reader.read(segment, Want(None, offset, bytes_max, records_max), admit)

    def number_at(self, segment: Segment, timestamp: int) -> Deferred[int]:
        """The first record from this time (microseconds since 1970) on, or one a little before it."""
        return self._reader.number_at(segment, timestamp)

    def wait(self, segment: Segment, number: int) -> Deferred[None]:
        """Fires when record `number` is there to be read, or when it never will be: sealed, or deleted.

        Cancel it to stop waiting.
        """
        return wait(self._segments, segment, number)
