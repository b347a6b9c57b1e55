"""A transaction: messages for any topics that become visible together, or not at all.

A small one is kept in memory and appended in one frame. A larger one is written to hidden segments, one for each topic,
which are published together: neither memory nor the frame grows with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from streamd.batch import Batch
from streamd.interfaces import RequestError
from streamd.store import Append, Segment, StoreError
from streamd.store.records.offsets import span

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamd.connections.core import Core

# Up to here it is kept in memory, unless that is short.
_MEMORY_BYTES: Final = 256 << 10


class TransactionFailed(RequestError):
    """A transaction that can only be rolled back."""


class TransactionTooLarge(TransactionFailed):
    """A message would have taken the transaction over its limit."""

    reason = "transaction_bytes"


class Hidden:
    """What a transaction has written to one topic, in a hidden segment."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self.segment: Segment | None = None
        self.abandoned = False
        self._waiting: list[tuple[Batch, Deferred[Any]]] = []
        core.store.create(f"fujin/{uuid4().hex}", hidden=True).addCallbacks(self._made, self._not_made)

    def append(self, batch: Batch) -> Deferred[Any]:
        """Append messages; fires when they are on disk."""
        if self.segment is not None:
            return self._store.append(self.segment, batch)
        written: Deferred[Any] = Deferred()
        self._waiting.append((batch, written))
        return written

    def _made(self, segment: Segment) -> None:
        self.segment = segment
        waiting, self._waiting = self._waiting, []
        if self.abandoned:
            self.abandon()
        for batch, written in waiting:
            try:
                self._store.append(segment, batch).chainDeferred(written)
            except StoreError as error:
                written.errback(error)

    def _not_made(self, failure: Failure) -> None:
        failure.trap(StoreError)
        waiting, self._waiting = self._waiting, []
        for _, written in waiting:
            written.errback(failure)

    def abandon(self) -> None:
        """Delete the segment. Where that is not possible now it expires."""
        self.abandoned = True
        if self.segment is None:
            return
        try:
            self._store.delete(self.segment).addErrback(lambda failure: failure.trap(StoreError) and None)
        except StoreError:
            pass


class Transaction:
    """The messages that one writer has written since BEGIN.

    :param check: raises a RequestError where a topic can't take so many bytes more.
    :param target: finds the segment of a topic that is to take so many bytes more, and creates it where allowed.
    """

    def __init__(
        self, core: Core, bytes_max: int, check: Callable[[str, int], None], target: Callable[[str, int], Segment]
    ) -> None:
        self._core = core
        self._bytes_max = bytes_max
        self._check = check
        self._target = target
        self._bytes = 0
        self._taken: dict[str, int] = {}
        """The bytes that its messages take in each topic, counted as offsets are."""
        self.records = 0
        self.payload_bytes = 0
        self._kept_bytes = 0
        self._kept: dict[str, list[Batch]] = {}
        self._hidden: dict[str, Hidden] = {}
        self._failed: str | None = None

    def write(self, topic: str, batch: Batch) -> Deferred[Any] | None:
        """Add messages; returns None, or a Deferred where they have to be written.

        After a RequestError they are not part of it.
        """
        taken = self._taken.get(topic, 0) + span(0, batch.count, batch.size)
        self._check(topic, taken)
        if self._failed is not None:
            raise TransactionFailed(self._failed)
        size = batch.size + 4 * batch.count
        if self._bytes + size > self._bytes_max:
            error = TransactionTooLarge(f"the transaction is over the limit of {self._bytes_max} bytes")
            if batch.count == 1:
                # Of several the first ones may fit: these come again one by one.
                self._failed = str(error)
            raise error
        self._bytes += size
        self._taken[topic] = taken
        self.records += batch.count
        self.payload_bytes += batch.size
        if self._hidden:
            return self._write_hidden(topic, batch)
        self._kept.setdefault(topic, []).append(batch)
        self._keep(size)
        if self._kept_bytes <= _MEMORY_BYTES and not self._core.load.crowded:
            return None
        return self._spill()

    def _keep(self, bytes_: int) -> None:
        """Count kept messages with the memory of all connections."""
        self._kept_bytes += bytes_
        self._core.load.change(bytes_)

    def _spill(self) -> Deferred[Any]:
        """Write all kept messages to hidden segments."""
        kept, self._kept = self._kept, {}
        self._keep(-self._kept_bytes)
        written = [self._write_hidden(topic, Batch.joined(batches)) for topic, batches in kept.items()]
        for writing in written[:-1]:
            # The last one says whether it worked: they are all in the same commit, or in commits before it.
            writing.addErrback(self._not_written)
        return written[-1]

    def _write_hidden(self, topic: str, batch: Batch) -> Deferred[Any]:
        try:
            if topic not in self._hidden:
                self._hidden[topic] = Hidden(self._core)
            return self._hidden[topic].append(batch).addErrback(self._spoil)
        except StoreError:
            self._spoil(Failure())
            raise

    def _spoil(self, failure: Failure) -> Failure:
        self._failed = f"a message could not be stored: {failure.getErrorMessage()}"
        return failure

    def _not_written(self, failure: Failure) -> None:
        failure.trap(StoreError)

    def commit(self) -> Deferred[Any] | None:
        """Make the messages visible; None where there are none.

        Fails with a StoreError, and then nothing is visible.
        """
        if self._failed is not None:
            raise TransactionFailed(self._failed)
        # All of them before the first is made: what is refused leaves no trace. Others may have filled them meanwhile.
        for topic, size in self._taken.items():
            self._check(topic, size)
        if self._hidden:
            parts = []
            for topic, hidden in self._hidden.items():
                assert hidden.segment is not None, "a commit waits until what was written before it is on disk"
                parts.append((hidden.segment, self._target(topic, self._taken[topic])))
            return self._core.store.publish(parts)
        appends = [
            Append(self._target(topic, self._taken[topic]), Batch.joined(batches))
            for topic, batches in self._kept.items()
        ]
        return self._core.store.append_all(appends) if appends else None

    def end(self, *, rolled_back: bool) -> None:
        """Drop what the transaction keeps."""
        self._kept = {}
        self._keep(-self._kept_bytes)
        if rolled_back:
            for hidden in self._hidden.values():
                hidden.abandon()
        self._hidden = {}
