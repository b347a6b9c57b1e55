"""One namespace: what is written by any protocol is read by any other, for every pair, both ways."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import product
from struct import pack, unpack_from

from twisted.trial.unittest import SynchronousTestCase

from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.protocols.faststream.protocol import FastStreamFactory
from streamd.protocols.fujin.factory import FujinFactory
from streamd.protocols.fujin.settings import FujinSettings
from streamd.protocols.pravega.protocol import PravegaFactory, PravegaSettings
from streamd.protocols.sesp import SespFactory
from streamd.protocols.smq import SmqFactory, SmqSettings
from streamd.wire.client import fujin as fujin_client
from streamd.wire.pravega.documented import HEADER
from tests.rigs.protocols.rig import Peer, Rig
from tests.rigs.wire.faststream import one, single
from tests.rigs.wire.pravega import block, event, read, setup, text

# The one name that all of them can have: for FastStreamDB it is stream 7.
NAME = "faststream/7"
MESSAGES = [b"hello", b"", "zwölf Boxkämpfer".encode(), b"x" * 3000]
BINARY = [b"two\nlines", b"\xff\x00", b"nul\0inside"]


def write_sesp(peer: Peer, messages: list[bytes]) -> None:
    peer.send(f"@{NAME}\n".encode() + b"".join(b">%s\n" % each for each in messages))


def write_smq(peer: Peer, messages: list[bytes]) -> None:
    peer.send(b"".join(pack(">BQBI", 0, 5 + len(each), 0, len(each)) + each for each in messages))


def write_faststream(peer: Peer, messages: list[bytes]) -> None:
    peer.send(b"".join(single(7, each) for each in messages))


def write_pravega(peer: Peer, messages: list[bytes]) -> None:
    peer.send(setup(NAME) + block(0, b"".join(map(event, messages))))


def write_fujin(peer: Peer, messages: list[bytes]) -> None:
    peer.send(fujin_client.connect_writer(0) + fujin_client.writes(0, NAME, messages))


def read_sesp(peer: Peer, count: int) -> list[bytes]:
    lines = peer.ask(f"@{NAME}\n".encode() + b"<\n" * count).split(b"\n")[1:-1]
    return [_unescaped(line) for line in lines]


def _unescaped(line: bytes) -> bytes:
    """A message as it was: a line that begins with a star is escaped."""
    return line[1:] if line.startswith(b"+") else line[1:].decode("unicode_escape").encode("latin-1")


def read_smq(peer: Peer, count: int) -> list[bytes]:
    data = peer.ask(pack(">BQ", 1, 0) * count)
    found = []
    while data:
        _, size, kind, _ = unpack_from(">BQBI", data)
        message = data[14 : 9 + size]
        # A record without a type is a string where it can be one, with the NUL that ends it.
        found.append(message[:-1] if kind == 10 else message)
        data = data[9 + size :]
    return found


def read_faststream(peer: Peer, count: int) -> list[bytes]:
    return [peer.send(one(8, 7)).take_all()[8:]]


def read_pravega(peer: Peer, count: int) -> list[bytes]:
    data = peer.ask(read(NAME, 0, 1 << 20))[HEADER.size + len(text(NAME)) + 10 :]
    found = []
    while data:
        _, length = HEADER.unpack_from(data)
        found.append(data[8 : 8 + length])
        data = data[8 + length :]
    return found


def read_fujin(peer: Peer, count: int) -> list[bytes]:
    events = fujin_client.FujinReplies(1 << 20).receive(peer.ask(fujin_client.connect_reader(NAME, consumer=False)))
    batches = [event.batch for event in events if isinstance(event, fujin_client.Messages)]
    return [bytes(record) for batch in batches for record in batch.records()]


Write = Callable[[Peer, list[bytes]], None]
Read = Callable[[Peer, int], list[bytes]]
PROTOCOLS: dict[str, tuple[Callable[[Core], StreamFactory], Write, Read]] = {
    "sesp": (SespFactory, write_sesp, read_sesp),
    "smq": (lambda core: SmqFactory(core, SmqSettings(NAME)), write_smq, read_smq),
    "faststream": (FastStreamFactory, write_faststream, read_faststream),
    "pravega": (lambda core: PravegaFactory(core, PravegaSettings()), write_pravega, read_pravega),
    "fujin": (lambda core: FujinFactory(core, FujinSettings()), write_fujin, read_fujin),
}


class PairTests(SynchronousTestCase):
    def exchange(self, writer: str, reader: str, messages: list[bytes]) -> list[bytes]:
        """What the second protocol reads of what the first one wrote."""
        rig = Rig(os.path.abspath(self.mktemp()))
        self.addCleanup(rig.close)
        made = rig.store.create(NAME)
        rig.run()
        self.successResultOf(made)
        rig.factory = PROTOCOLS[writer][0](rig.core)
        PROTOCOLS[writer][1](rig.connect(), messages)
        rig.factory = PROTOCOLS[reader][0](rig.core)
        return PROTOCOLS[reader][2](rig.connect(), len(messages))

    def test_every_pair(self) -> None:
        """Text, which all of them can write."""
        for writer, reader in product(PROTOCOLS, PROTOCOLS):
            expected = [b"".join(MESSAGES)] if reader == "faststream" else MESSAGES
            self.assertEqual(self.exchange(writer, reader, MESSAGES), expected, f"{writer} to {reader}")

    def test_binary(self) -> None:
        """Bytes that are no text, which all but SESP can write and all can read."""
        for writer, reader in product(["smq", "faststream", "pravega", "fujin"], PROTOCOLS):
            expected = [b"".join(BINARY)] if reader == "faststream" else BINARY
            self.assertEqual(self.exchange(writer, reader, BINARY), expected, f"{writer} to {reader}")
