"""Plain TCP and unix sockets in an epoll set of their own, which the reactor watches as one reader.

A reactor calls each socket that is ready by itself, and what it does around each call costs more than most requests.
Here one call serves all that are ready, one read of each, as one `Turn`: what they write is one commit.

A member of the crowd is Twisted's own transport in all but what wakes it: buffers, producers, half-closing, aborting
and the order of the end are inherited. A listening port is Twisted's too; it is told to make members.

A member that pauses is not taken out of the set before it is reported again: most pause for less than that.
"""

from __future__ import annotations

import socket
from errno import ENOBUFS
from functools import partial
from select import EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, epoll
from typing import Any, Final

from twisted.internet import tcp, unix
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IListeningPort, IReadDescriptor
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from streamd.store.commit.turn import Turn

# What is read of one member at once. The others have their turn after that.
_READ_BYTES: Final = 65536

# And of all together before whatever else the reactor has to do gets its turn.
_TURN_BYTES: Final = 4 << 20

_EVENTS_MAX: Final = 1024
_GONE: Final = EPOLLERR | EPOLLHUP


@implementer(IReadDescriptor)
class Crowd:
    """All members, and who of them has something to be read, or room for something to be written."""

    _log = Logger()

    def __init__(self, reactor: Any, turn: Turn) -> None:
        self._reactor = reactor
        self._turn = turn
        self._epoll = epoll()
        self._members: dict[int, Member] = {}
        self._left: list[tuple[int, int]] = []
        """Who was ready in the last turn and not read any more: first in this one, or it might never be."""
        reactor.addReader(self)

    def __len__(self) -> int:
        """How many members are watched."""
        return len(self._members)

    def adopt(self, port: IListeningPort) -> None:
        """Let what connects to this port be in the crowd, where that is a port for plain sockets."""
        if isinstance(port, tcp.Port):
            kind = UnixMember if isinstance(port, unix.Port) else Member
            port.transport = partial(kind, self)  # type: ignore[assignment]

    def close(self) -> None:
        """Watch nobody any more; who is left is cut off."""
        if not self._epoll.closed:
            self._reactor.removeReader(self)
            self.connectionLost(Failure(ConnectionAborted()))
            self._epoll.close()

    # -- for the reactor -----------------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """The descriptor to watch: it can be read when a member is ready."""
        return self._epoll.fileno() if not self._epoll.closed else -1

    def logPrefix(self) -> str:
        """For the reactor's log."""
        return "crowd"

    def connectionLost(self, reason: Failure) -> None:
        """The reactor gives up all that it watches: so do we."""
        for member in list(self._members.values()):
            member.connectionLost(reason)

    def doRead(self) -> None:
        """Serve everybody who is ready."""
        events, self._left = self._left or self._epoll.poll(0, _EVENTS_MAX), []
        self._turn.begin()
        try:
            self._serve_all(events)
        finally:
            self._turn.end()

    def _serve_all(self, events: list[tuple[int, int]]) -> None:
        members = self._members
        left = _TURN_BYTES
        for at, (descriptor, event) in enumerate(events, 1):
            member = members.get(descriptor)
            if member is None:
                continue
            if event != EPOLLIN or not member.wanted & EPOLLIN:
                self._serve(member, event)
                continue
            try:
                data = member.receive(_READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                self._end(member, CONNECTION_LOST)
                continue
            if not data:
                self._end(member, CONNECTION_DONE, reading=True)
                continue
            try:
                member.protocol.dataReceived(data)
            except BaseException as error:
                self._fail(member, error)
            size = len(data)
            if size == _READ_BYTES:
                # There is more.
                self._turn.is_whole = False
            left -= size
            if left < 0:
                # Who has more than something to be read is reported again.
                self._turn.is_whole = False
                self._left = [(descriptor, EPOLLIN) for descriptor, event in events[at:] if event & EPOLLIN]
                return

    def _serve(self, member: Member, event: int) -> None:
        """Serve a member that has more to be done than a read, as the reactor would."""
        if event & EPOLLIN and not member.wanted & EPOLLIN:
            # It has paused since: from now on it is not reported.
            self._arm(member)
            event &= ~EPOLLIN
            if not member.armed:
                return
        why: Any = None
        reading = False
        if event & _GONE and not event & EPOLLIN:
            reading = bool(member.wanted & EPOLLIN)
            why = CONNECTION_DONE if reading else CONNECTION_LOST
        else:
            try:
                if event & EPOLLIN:
                    why = member.doRead()
                    reading = True
                if not why and event & EPOLLOUT and member.wanted & EPOLLOUT:
                    why = member.doWrite()  # type: ignore[no-untyped-call]
                    reading = False
            except BaseException as error:
                self._fail(member, error)
                return
        if why:
            self._end(member, why, reading=reading)

    def _end(self, member: Member, why: ConnectionDone | ConnectionLost, *, reading: bool = False) -> None:
        """A socket has come to its end: to that of what can be read, or altogether."""
        member.stopReading()
        if reading and why is CONNECTION_DONE:
            member.readConnectionLost(Failure(why))
        else:
            member.connectionLost(Failure(why))

    def _fail(self, member: Member, error: BaseException) -> None:
        self._log.failure("a connection failed", Failure(error))
        member.connectionLost(Failure(error))

    # -- for the members -----------------------------------------------------------------------------------------------

    def _arm(self, member: Member) -> None:
        """Have a member reported for what it wants, and for nothing else."""
        wanted = member.wanted
        if not member.armed:
            if wanted:
                self._epoll.register(member.descriptor, wanted)
                self._members[member.descriptor] = member
        elif wanted:
            self._epoll.modify(member.descriptor, wanted)
        else:
            self._dismiss(member)
        member.armed = wanted

    def _dismiss(self, member: Member) -> None:
        if member.armed:
            member.armed = 0
            del self._members[member.descriptor]
            self._epoll.unregister(member.descriptor)


class Member(tcp.Server):
    """A TCP connection in the crowd, or what others have in common with one."""

    wanted = 0
    """What it waits for: EPOLLIN, EPOLLOUT."""
    armed = 0
    """What it is reported for."""

    def __init__(self, crowd: Crowd, connection: socket.socket, *args: Any) -> None:
        self._crowd = crowd
        self.descriptor = connection.fileno()
        self.receive = connection.recv
        super().__init__(connection, *args)

    def startReading(self) -> None:
        self.wanted |= EPOLLIN
        if not self.armed & EPOLLIN:
            self._crowd._arm(self)

    def stopReading(self) -> None:
        self.wanted &= ~EPOLLIN

    def startWriting(self) -> None:
        self.wanted |= EPOLLOUT
        if not self.armed & EPOLLOUT:
            self._crowd._arm(self)

    def stopWriting(self) -> None:
        self.wanted &= ~EPOLLOUT
        if self.armed & EPOLLOUT:
            # Not when it is reported the next time: there is nearly always room.
            self._crowd._arm(self)

    def connectionLost(self, reason: Failure) -> None:
        self._crowd._dismiss(self)
        super().connectionLost(reason)

    def writeSomeData(self, data: bytes | memoryview) -> int | ConnectionLost:
        """Send what the operating system takes: how much that was."""
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            return 0 if error.errno == ENOBUFS else CONNECTION_LOST


class UnixMember(Member, unix.Server):
    """A connection to a unix socket. Descriptors that are sent along with bytes are closed by the operating system."""
