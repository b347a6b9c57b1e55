"""The tail of a segment: who waits there for the next record, and is woken when it is committed."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed

from streamd.store.segments.broadcasts import Numbered
from streamd.store.segments.registry import Segments
from streamd.store.segments.segment import Segment


def wait(segments: Segments, segment: Segment, number: int) -> Deferred[None]:
    """Fires when record `number` is there to be read, or when it never will be: sealed, or deleted.

    Cancel it to stop waiting.
    """
    if segment.number > number or segment.sealed or segment.deleted:
        return succeed(None)

    def cancel(waiting: Deferred[Any]) -> None:
        if segment.waiters is not None:
            segment.waiters.pop(waiting, None)

    deferred: Deferred[None] = Deferred(cancel)
    if isinstance(segment, Numbered):
        segments.listening.add(segment)
    if segment.waiters is None:
        segment.waiters = {}
    segment.waiters[deferred] = number
    return deferred


def wake(segments: Segments) -> None:
    """Fire the Deferreds of all who wait at the tail of a segment that has changed."""
    changed, segments.woken = segments.woken, []
    for segment in changed:
        if not segment.waiters:
            continue
        over = segment.sealed or segment.deleted
        ready = [waiting for waiting, number in segment.waiters.items() if over or segment.number > number]
        for deferred in ready:
            if segment.waiters and segment.waiters.pop(deferred, None) is not None:
                deferred.callback(None)
