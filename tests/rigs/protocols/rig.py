"""Connections without sockets: a real store on a real directory, a clock and a disk that a test holds in its hand."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from streamd.batch import Batch, Buffer
from streamd.connections.base import StreamProtocol
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.connections.load import Load
from streamd.protocols.sesp import SespFactory
from streamd.settings import Limits, StoreSettings
from streamd.store import Store, Threads, assemble
from streamd.store.disk import Disk, DiskFile, IDisk
from streamd.store.journal.writer import JournalWriter
from tests.rigs.store.inline import InlineWriter

BUFFER_BYTES = 64 << 10
"""What Twisted's transports take before they pause their producer."""


class FillingDisk(Disk):
    """The real disk, which is full for as long as a test says so."""

    full = False

    def create(self, path: str) -> DiskFile:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return _FillingFile(self, super().create(path))

    def open(self, path: str, *, writable: bool) -> DiskFile:
        return _FillingFile(self, super().open(path, writable=writable))


class _FillingFile(DiskFile):
    def __init__(self, disk: FillingDisk, file: DiskFile) -> None:
        descriptor, file._descriptor = file._descriptor, -1
        super().__init__(descriptor)
        self._disk = disk

    def write(self, position: int, buffers: Any) -> None:
        if self._disk.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(position, buffers)


class Wire(StringTransport):
    """A transport with a buffer like a socket's: a peer that does not take its replies is one that is `slow`."""

    def __init__(self) -> None:
        super().__init__(lenient=True)
        self.slow = False
        self.full = False
        self.buffer_bytes = BUFFER_BYTES

    def write(self, data: bytes) -> None:
        if self.disconnecting:
            return
        super().write(data)
        if self.slow and not self.full and self.io.tell() > self.buffer_bytes and self.producer is not None:
            self.full = True
            self.producer.pauseProducing()

    def take(self) -> bytes:
        """All that was written, as the peer takes it."""
        data: bytes = self.value()
        self.clear()
        if self.full:
            self.full = False
            if self.producer is not None:
                self.producer.resumeProducing()
        return data


class Peer:
    """The other end of a connection. What it sends waits, as in a socket, for as long as it is not read."""

    make_wire: type[Wire] = Wire

    def __init__(self, rig: Rig, protocol: StreamProtocol) -> None:
        self._rig = rig
        self._sent: deque[bytes] = deque()
        self._shut = False
        self.closed = False
        self.protocol = protocol
        self.wire = self.make_wire()
        protocol.makeConnection(self.wire)

    @property
    def read(self) -> bool:
        """Whether what it sends is read."""
        return self.wire.producerState == "producing" and not self.wire.disconnecting

    @property
    def waiting_bytes(self) -> int:
        """What it sent and nobody has read."""
        return sum(map(len, self._sent))

    @property
    def aborted(self) -> bool:
        """Whether it was cut off without a farewell."""
        return self.wire.disconnected

    def send(self, data: bytes) -> Peer:
        """Send this in one segment."""
        self.put(data)
        self._rig.run()
        return self

    def put(self, data: bytes) -> None:
        """Send this, which is read when the rig runs: together with what others put."""
        self._sent.append(data)

    def take(self) -> bytes:
        """What came back since the last time."""
        data = self.wire.take()
        self._rig.run()
        return data

    def take_all(self) -> bytes:
        """What comes back until nothing more does."""
        parts = []
        while data := self.take():
            parts.append(data)
        return b"".join(parts)

    def ask(self, data: bytes) -> bytes:
        """Send, and take what comes back."""
        return self.send(data).take()

    def shut(self) -> None:
        """Send no more, and still take answers."""
        self._shut = True
        self._rig.run()

    def drop(self) -> None:
        """Be gone."""
        if not self.closed:
            self._lose(Failure(ConnectionDone()))
            self._rig.run()

    def _lose(self, reason: Failure) -> None:
        self.closed = True
        # As Twisted's transports do.
        self.wire.producer = None
        self.protocol.connectionLost(reason)

    def step(self) -> bool:
        """Let the reactor see to this connection once: whether there was anything to do."""
        if self.closed:
            return False
        if self.wire.disconnecting and (self.aborted or not self.wire.full):
            self._lose(Failure(ConnectionAborted() if self.aborted else ConnectionDone()))
        elif self.read and self._sent:
            self.protocol.dataReceived(self._sent.popleft())
        elif self.read and self._shut:
            self._shut = False
            self.protocol.readConnectionLost()
        else:
            return False
        return True


class Rig:
    """A store in a directory, and connections to it."""

    def __init__(
        self,
        directory: str,
        *,
        limits: Limits = Limits(),
        make_factory: Callable[[Core], StreamFactory] = SespFactory,
        medium: IDisk | None = None,
    ) -> None:
        self.directory = directory
        self.clock = Clock()
        self.disk = FillingDisk()
        self.medium = medium or self.disk
        """Where the store is: on the real disk, or on one in memory where a test opens hundreds of them."""
        self.held = False
        """Whether commits have to wait."""
        self.in_turns = False
        """Whether connections are served together, as those on plain sockets are."""
        self.closed = False
        self.limits = limits
        self.load = Load(limits)
        self.store, self.writer = self._open()
        self.core = Core(self.store, limits, self.load, self.clock, self.clock.seconds())
        self.factory = make_factory(self.core)
        self.peers: list[Peer] = []

    def _open(self) -> tuple[Store, InlineWriter]:
        # In memory a file is made of real zeros: the smaller, the sooner.
        size = 1 << 20 if self.medium is self.disk else 128 << 10
        settings = StoreSettings(journal_file_bytes=size, reserve_bytes=4096)
        writers: list[InlineWriter] = []

        def make_writer(journal: JournalWriter) -> InlineWriter:
            writers.append(InlineWriter(journal, settings, 1_700_000_000_000_000))
            return writers[0]

        threads = Threads(self.run_apart, self.clock.seconds)
        store = assemble(self.medium, self.directory, settings, make_writer, threads)
        return store, writers[0]

    def run_apart(self, call: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Do what a thread would do: here at once."""
        return maybeDeferred(call, *args)

    def connect(self, factory: StreamFactory | None = None) -> Peer:
        """A new connection, to the rig's own endpoint or to another one of the same store."""
        protocol = (factory or self.factory).buildProtocol(None)
        assert protocol is not None, "too many connections"
        peer = Peer(self, protocol)
        self.peers.append(peer)
        return peer

    def run(self) -> None:
        """Let everything happen that can, but for commits while those are held."""
        while True:
            busy = self.step_all()
            self.peers = [peer for peer in self.peers if not peer.closed]
            if not self.held and len(self.writer):
                self.writer.step()
                busy = True
            if any(call.getTime() <= self.clock.seconds() for call in self.clock.getDelayedCalls()):
                self.clock.advance(0)
                busy = True
            if not busy:
                return

    def step_all(self) -> bool:
        """Let the reactor see to each connection once: whether there was anything to do."""
        if not self.in_turns:
            return sum([peer.step() for peer in self.peers]) > 0
        self.store.turn.begin()
        try:
            return sum([peer.step() for peer in self.peers]) > 0
        finally:
            self.store.turn.end()

    def advance(self, seconds: float) -> None:
        """Let time pass, one second after the other."""
        while seconds > 0:
            self.clock.advance(min(seconds, 1.0))
            seconds -= 1.0
            self.run()

    def release(self) -> None:
        """Let commits through again."""
        self.held = False
        self.run()

    def publish(self, topic: str, *records: Buffer) -> None:
        """Store records as another protocol would, in a topic that is there."""
        self.store.append(self.store.find(topic), Batch.of(records))
        self.run()

    def close(self) -> None:
        """Drop all connections and close the store. A second time does nothing."""
        if self.closed:
            return
        self.closed = True
        self.held = False
        self.disk.full = False
        for peer in list(self.peers):
            peer.drop()
        self.run()
        closed: list[object] = []
        self.store.close().addCallback(closed.append)
        assert closed, "the store did not close"


class Apart(Rig):
    """A rig whose reads from a cold page end when a test says so."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.cold_held = False
        self._apart: deque[tuple[Deferred[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        super().__init__(*args, **options)

    def run_apart(self, call: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Do what a thread would do, in its time."""
        done: Deferred[Any] = Deferred()
        self._apart.append((done, call, args))
        return done

    def run(self) -> None:
        """Let everything happen that can, but for reads while those are held."""
        super().run()
        while self._apart and not self.cold_held:
            done, call, args = self._apart.popleft()
            maybeDeferred(call, *args).chainDeferred(done)
            super().run()
