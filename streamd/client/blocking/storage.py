"""Segments and records for tools, blocking."""

from __future__ import annotations

from collections.abc import Iterator

from streamd.client.blocking.client import Client, blocking
from streamd.client.storage import READ_BYTES, Records, StorageSession
from streamd.wire.storage import Run


class StorageClient(Client[StorageSession]):
    """Looks at segments, reads records in columns, and publishes what was written to hidden segments."""

    _session_type = StorageSession

    segments = blocking(StorageSession.segments)
    named = blocking(StorageSession.named)
    segment = blocking(StorageSession.segment)
    number_at = blocking(StorageSession.number_at)
    offset_of = blocking(StorageSession.offset_of)
    number_of = blocking(StorageSession.number_of)
    split_points = blocking(StorageSession.split_points)
    create = blocking(StorageSession.create)
    create_hidden = blocking(StorageSession.create_hidden)
    append = blocking(StorageSession.append)
    flush = blocking(StorageSession.flush)
    publish = blocking(StorageSession.publish)
    delete_hidden = blocking(StorageSession.delete_hidden)
    group = blocking(StorageSession.group)
    set_group = blocking(StorageSession.set_group)
    level = blocking(StorageSession.level)

    def read(self, segment: int, first: int, end: int | None = None, *, bytes_max: int = READ_BYTES) -> Iterator[Run]:
        """Records `first` to `end` (not included; None: all there are now), about `bytes_max` of them at a time.

        StorageTruncated where they are gone, Refused where the segment is, ClientError where there are not so many.
        The next piece is on its way while this one is worked on.
        """
        records = Records(self._session, segment, first, end, bytes_max)
        while runs := self._run(records._some()):
            yield from runs
