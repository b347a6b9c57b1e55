"""A daemon, asked over the network with its messages for tools: for machines that do not see the store's files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NoReturn, TypeVar

from streamd.client.blocking import StorageClient
from streamd.client.core.reconnecting import Backoff
from streamd.client.errors import ClientError, ConnectionLost, ProtocolBroken, Refused
from streamd.client.storage import StorageTruncated
from streamd.store.errors import NoSuchSegment, ReadFailed, RecordsTruncated
from streamd.wire.tools import NAMES_MAX, SPLIT_MAX, Run, SegmentInfo

T = TypeVar("T")

# A daemon that is started again is back in a moment. Everything asked here can be asked twice.
_AWAY_SECONDS_MAX: Final = 30.0
_TRIES_MAX: Final = 3


class ServerStorage:
    """A connection that is made again when it is lost."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connect()

    def close(self) -> None:
        """Hang up. A connection that is lost already is nobody's trouble."""
        with suppress(ClientError):
            self._client.close()

    def refresh(self) -> None:
        """Every answer tells how things are when it is given."""

    def segments(self) -> list[SegmentInfo]:
        """All segments; hidden ones are not listed."""
        return self._ask(lambda client: client.segments())

    def named(self, names: Sequence[str]) -> list[SegmentInfo]:
        """The segments of these names, as far as there are any."""

        def ask(client: StorageClient) -> list[SegmentInfo]:
            parts = [names[first : first + NAMES_MAX] for first in range(0, len(names), NAMES_MAX)]
            return [info for part in parts for info in client.named(part)]

        return self._ask(ask)

    def segment(self, id: int) -> SegmentInfo:
        """One segment; NoSuchSegment."""
        return self._ask(lambda client: client.segment(id))

    def number_at(self, id: int, timestamp: int) -> int:
        """The first retained record of this time or later; the next number where none is."""
        return self._ask(lambda client: client.number_at(id, timestamp))

    def split_points(self, id: int, first: int, end: int, parts: int) -> list[int]:
        """Record numbers that make up to `parts` ranges; no more than the daemon cuts at once."""
        return self._ask(lambda client: client.split_points(id, first, end, min(parts, SPLIT_MAX)))

    def set_group(self, id: int, group: str, position: int) -> None:
        """Put a reader group at a position."""
        self._ask(lambda client: client.set_group(id, group, position))

    def read(self, id: int, first: int, end: int) -> Iterator[Run]:
        """Records `first` to `end`, on a new connection from where they stopped when one is lost."""
        number, tries = first, 0
        while number < end:
            runs = self._client.read(id, number, end)
            try:
                for run in runs:
                    yield run
                    number, tries = run.number + run.batch.count, 0
            except ConnectionLost as lost:
                tries += 1
                self._connect_again(lost, tries)
            except ClientError as error:
                _translate(error)

    def _ask(self, question: Callable[[StorageClient], T]) -> T:
        tries = 0
        while True:
            try:
                return question(self._client)
            except ConnectionLost as lost:
                tries += 1
                self._connect_again(lost, tries)
            except ClientError as error:
                _translate(error)

    def _connect_again(self, lost: ConnectionLost, tries: int) -> None:
        """Wait for the daemon. One that hangs up on each question does not know these messages."""
        if tries > _TRIES_MAX:
            raise lost
        self._connect()

    def _connect(self) -> None:
        """Connect to a daemon, which may be about to start."""
        backoff = Backoff(_AWAY_SECONDS_MAX)
        while True:
            self._client = StorageClient(self._address)
            try:
                self._client.connect()
                return
            except ProtocolBroken:
                raise
            except ConnectionLost as lost:
                time.sleep(backoff.delay(lost, time.monotonic()))


def _translate(error: ClientError) -> NoReturn:
    """Raise what a reader of files would have raised."""
    if isinstance(error, StorageTruncated):
        raise RecordsTruncated(error.number, error.offset)
    if isinstance(error, Refused) and error.reason == "NoSuchSegment":
        raise NoSuchSegment(str(error))
    raise ReadFailed(str(error))
