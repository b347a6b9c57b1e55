"""Streams of Fujin without QUIC: the rig's connections, with a transport that knows codes."""

from __future__ import annotations

import os
from struct import pack
from typing import Any

from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from streamd.batch import Batch
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.protocols.fujin.factory import FujinFactory
from streamd.protocols.fujin.settings import FujinSettings, configure
from streamd.quic.interfaces import IQuicStream
from streamd.settings import Limits
from streamd.wire import fujin_replies as replies
from streamd.wire.client import fujin as client
from tests.rigs.protocols.rig import Peer, Rig, Wire

MANUAL = configure({"readers": {"manual": {"topic": "a", "group": "g", "auto_commit": False}}})
"""The reader `manual` reads the topic `a`, and acknowledges."""


@implementer(IQuicStream)
class Stream(Wire):
    """A transport that remembers the codes it was ended with."""

    code = 0
    """What a stream was closed with, or cut off."""
    connection: Any = None
    streamId = 0

    def loseWriteConnection(self) -> None:
        """Nobody here writes to one who still reads and then ends only that."""
        raise NotImplementedError

    def end(self, code: int) -> None:
        """Close with a code, behind what was written."""
        self.code = code
        self.loseConnection()

    def abortConnection(self, code: int = 0) -> None:
        """Be cut off."""
        self.code = code
        super().abortConnection()

    def stop(self, code: int) -> None:
        """Nobody here ends one way only."""
        raise NotImplementedError

    def reset(self, code: int) -> None:
        """Nor the other."""
        raise NotImplementedError


class StreamPeer(Peer):
    """The other end of a stream."""

    make_wire = Stream
    wire: Stream

    @property
    def code(self) -> int:
        """What its stream was closed with."""
        return self.wire.code


class FujinRig(Rig):
    """A store, and streams to it."""

    def connect(self, factory: StreamFactory | None = None) -> StreamPeer:
        """A new stream."""
        protocol = (factory or self.factory).buildProtocol(None)
        assert protocol is not None, "too many connections"
        peer = StreamPeer(self, protocol)
        self.peers.append(peer)
        return peer

    def connect_writer(self) -> StreamPeer:
        """A stream that writes."""
        peer = self.connect()
        peer.send(client.connect_writer(1))
        return peer

    def subscriber(self, name: str) -> StreamPeer:
        """A stream that is pushed to."""
        peer = self.connect()
        peer.send(client.connect_reader(name, consumer=False))
        return peer

    def consumer(self, name: str) -> StreamPeer:
        """A stream that fetches."""
        peer = self.connect()
        peer.send(client.connect_reader(name, consumer=True))
        return peer


class FujinCase(SynchronousTestCase):
    """A rig with the settings of the class."""

    settings = FujinSettings()
    limits = Limits()

    def setUp(self) -> None:
        self.directory = os.path.abspath(self.mktemp())
        self.rig = self.start()

    def start(self) -> FujinRig:
        """A daemon on the directory."""

        def make(core: Core) -> StreamFactory:
            return FujinFactory(core, self.settings)

        rig = FujinRig(self.directory, limits=self.limits, make_factory=make)
        self.addCleanup(rig.close)
        return rig

    def restart(self) -> None:
        """Another daemon on the same directory."""
        self.rig.close()
        self.rig = self.start()

    def topic(self, name: str, *messages: bytes) -> None:
        """A topic with these messages."""
        made = self.rig.store.create(name)
        self.rig.run()
        self.successResultOf(made)
        if messages:
            self.rig.publish(name, *messages)

    def messages_of(self, topic: str) -> list[bytes]:
        """All that can be read of a topic, by a reader of its own."""
        settings = configure({"readers": {"all": {"topic": topic, "group": ""}}, "auto_create": False})
        other = self.rig.connect(FujinFactory(self.rig.core, settings))
        data = other.send(client.connect_reader("all", consumer=False)).take_all()
        other.drop()
        parser = client.FujinReplies(1 << 24)
        found: list[bytes] = []
        for event in parser.receive(data):
            if isinstance(event, client.Messages):
                found += [bytes(record) for record in event.batch.records()]
        return found


def written(*ids: int) -> bytes:
    """That these writes are on disk."""
    return b"".join(replies.answers(replies.Reply.WRITTEN, pack(">I", id)) for id in ids)


def pushed(*messages: bytes, first: int | None = None) -> bytes:
    """Messages as a reader gets them."""
    return replies.messages(Batch.of(messages), first)


def acked(*ids: int) -> bytes:
    """That these acknowledgements are on disk."""
    return b"".join(replies.answers(replies.Reply.ACKNOWLEDGED, pack(">I", id)) for id in ids)


def ack(id: int, number: int, *, back: bool = False) -> bytes:
    """An acknowledgement of one message, or that it is to come again."""
    return client.acknowledge(id, pack(">Q", number), back=back)


def error(data: bytes) -> tuple[int, str]:
    """The code and the text of a reply to WRITE, ACK or NACK."""
    (size,) = replies.U32.unpack_from(data, 6)
    assert len(data) == 10 + size, data
    return data[5], data[10:].decode()
