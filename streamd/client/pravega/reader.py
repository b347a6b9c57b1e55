"""Readers of Pravega's segments: events, one after the other."""

from __future__ import annotations

from collections import deque

from streamd.client.core.answer import Answer
from streamd.client.core.commands import Commands, Connected, Feed
from streamd.client.core.session import broken
from streamd.client.pravega.session import PravegaSession, read_reply
from streamd.wire import WireError
from streamd.wire.pravega import HEADER
from streamd.wire.pravega_client import Reply, SegmentRead, name_of, whole_events


class EventFeed(Feed[bytes]):
    """The events of a segment. The next piece of the segment is asked for while the caller works on this one."""

    def __init__(self, client: Connected[PravegaSession], segment: str, offset: int, wait: bool) -> None:
        self._client: Commands = client
        self._session = client._session
        self._name = name_of(segment)
        self._wait = wait
        self._end = offset
        self._rest = b""
        self._asked: Answer[Reply] | None = None
        self._at_tail = False
        self._unread_bytes = 0
        self._unread: deque[bytes] = deque()

    @property
    def offset(self) -> int:
        """Where the next event begins: a reader that begins there goes on where this one is."""
        return self._end - len(self._rest) - self._unread_bytes

    def _take(self) -> bytes | None:
        if not self._unread:
            return None
        event = self._unread.popleft()
        self._unread_bytes -= HEADER.size + len(event)
        return event

    async def _fill(self) -> bool:
        while not self._unread:
            if self._at_tail and not self._wait:
                # The next time the reader is asked it looks for what there is then.
                self._at_tail = False
                return False
            if self._asked is None:
                self._asked = self._session.read(self._name, self._end)
            reply = await self._asked
            self._asked = None
            if self._is_last(read_reply(reply)):
                return False
        return True

    def _is_last(self, piece: SegmentRead) -> bool:
        """Add the events of a piece. Returns whether it was the end of the segment."""
        self._end += len(piece.data)
        try:
            events, used = whole_events(self._rest + piece.data, self._session.event_bytes_max)
        except WireError as error:
            raise broken(error)
        self._rest = (self._rest + piece.data)[used:]
        self._unread_bytes += used
        self._unread.extend(events)
        self._at_tail = piece.at_tail
        if not piece.at_tail:
            self._asked = self._session.read(self._name, self._end)
        return piece.at_end and not events
