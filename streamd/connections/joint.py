"""One append for the messages of many connections, each of which sent one and waits for its answer.

Most clients do just that. Of such a connection everything that the other modules here watch over is known: nothing is
in its way, nothing came before, and one small reply is all that it gets. So its message goes to a list in place of a
request, a slot and a waiter of its own; the list is one append at the end of the turn; and when that is on disk, the
same reply goes to all of them. A connection that does anything else before its answer is there (it sends more, ends, is
to be drained) leaves the list for a slot, and is served like any other from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from twisted.python.failure import Failure

from streamd.batch import Batch
from streamd.connections.slots import Slot
from streamd.store import Segment, StoreError

if TYPE_CHECKING:
    from streamd.connections.factory import StreamFactory
    from streamd.connections.order import Ordered

JOINT_BYTES_MAX: Final = 1000
"""Larger messages are requests of their own: what a connection holds is counted from about there on."""


class JointAppend:
    """Messages for one topic that connections of one endpoint sent in one turn, one each. A waiter for the store."""

    __slots__ = ("_factory", "_segment", "_slots", "_tag", "connections", "records", "reply")

    def __init__(self, factory: StreamFactory, segment: Segment, tag: int, reply: bytes) -> None:
        self._factory = factory
        self._segment = segment
        self._tag = tag
        self.reply = reply
        self.records: list[bytes] = []
        self.connections: list[Ordered] = []
        self._slots: list[Slot] = []
        factory.joint[segment, tag] = self
        factory.core.store.turn.gathered.append(self)

    def gather(self) -> None:
        """Append what has come together: the turn ends."""
        del self._factory.joint[self._segment, self._tag]
        try:
            self._factory.core.store.append_for(self, self._segment, Batch.of(self.records), tag=self._tag)
        except StoreError as error:
            self.errback(error)

    def leave(self, connection: Ordered) -> None:
        """Give a connection a slot of its own, which is told what happens to its message."""
        connection._joint = None
        record = self.records[self.connections.index(connection)]
        request, *following = connection.joint_requests(self._segment, record, self._tag)
        slot = Slot(connection, request)
        slot.reply = b"" if following else self.reply
        slot.waiting = True
        connection._writes += 1
        connection._asked_bytes += request.size
        connection._replies.append(slot)
        self._slots.append(slot)
        for request in following:
            connection._requests.append(request)
            connection._asked_bytes += request.size

    def callback(self, result: object) -> None:
        """Answer everybody at the end of the turn: their messages are on disk."""
        traffic = self._factory.traffic
        traffic.appended_records += len(self.records)
        traffic.appended_bytes += sum(map(len, self.records))
        for slot in self._slots:
            slot.callback(None)
        turn = self._factory.core.store.turn
        if turn.lasts:
            turn.due.append(self)
        else:
            self.take_turn()

    def errback(self, error: Failure | Exception) -> None:
        """Refuse everybody: their messages can't be stored."""
        for connection in self.connections:
            if connection._joint is self:
                self.leave(connection)
        for slot in self._slots:
            slot.errback(error)

    def take_turn(self) -> None:
        """Send the reply to all who still wait here for it."""
        reply = self.reply
        size = len(reply)
        for connection in self.connections:
            if connection._joint is not self:
                continue
            connection._joint = None
            connection._out_bytes += size
            sent = 0
            if connection._direct:
                try:
                    sent = connection._send_some(reply)
                except OSError:
                    # For the transport to deal with, when it gets the rest.
                    pass
            if sent < size:
                connection._send(reply[sent:])
                if connection._pause:
                    connection._go_on()
                    continue
            connection._is_free = True
