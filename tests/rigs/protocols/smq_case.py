"""Connections to a queue of a test's own, and what is said on them."""

from __future__ import annotations

import os
import shutil
import struct
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.protocols import smq
from streamd.protocols.sesp import SespFactory
from streamd.settings import Limits
from streamd.wire.smq import EMPTY, PUSHED
from tests.rigs.protocols.rig import Peer, Rig
from tests.rigs.wire.smq import pull, push

LIMITS = Limits(message_bytes_max=128 << 10)
LARGE = 10_000
"""A message of so many bytes: a few of them fill a transport's buffer."""


def open_rig(directory: str, **limits: Any) -> Rig:
    """A store with connections to the default queue."""
    return Rig(
        directory,
        limits=Limits(**limits) if limits else LIMITS,
        make_factory=lambda core: smq.factory(core, smq.configure({})),
    )


def text(number: int, size: int = 0) -> bytes:
    """The push of a message that is no other's, which is the reply that brings it as well."""
    data = b"%d" % number + b" " * max(0, size - len(b"%d" % number))
    return push(0, len(data), data)


def texts(numbers: range | list[int], size: int = 0) -> bytes:
    return b"".join(text(number, size) for number in numbers)


def frames(data: bytes) -> list[bytes]:
    """Responses one by one; all of them whole."""
    found = []
    while data:
        size = 9 + struct.unpack_from(">Q", data, 1)[0]
        assert len(data) >= size, "half a response"
        found.append(data[:size])
        data = data[size:]
    return found


class SmqCase(SynchronousTestCase):
    """Connections to a queue of the test's own, and to the same store by SESP."""

    def setUp(self) -> None:
        self.start(os.path.abspath(self.mktemp()))

    def start(self, directory: str, **limits: Any) -> None:
        """Open a store; what was there is from now on another one's."""
        self.rig = open_rig(directory, **limits)
        self.addCleanup(self.rig.close)
        self.sesp_factory = SespFactory(self.rig.core)
        self.peer = self.rig.connect()

    def restart(self) -> None:
        """The daemon ends in order, and another one begins."""
        self.rig.close()
        self.start(self.rig.directory)

    def crash(self) -> None:
        """Begin another daemon with what is on the disk now; the old one knows nothing of it."""
        copy = os.path.abspath(self.mktemp())
        shutil.copytree(self.rig.directory, copy)
        self.start(copy)

    def asks(self, asked: bytes, expected: bytes, peer: Peer | None = None) -> None:
        """What is answered, to the byte."""
        self.assertEqual((peer or self.peer).ask(asked), expected)

    def sesp(self, lines: bytes) -> bytes:
        """Ask by SESP."""
        peer = self.rig.connect(self.sesp_factory)
        told = peer.ask(lines)
        peer.drop()
        return told

    def fill(self, count: int, size: int = 0, first: int = 0) -> None:
        """So many messages in the queue, numbered."""
        pusher = self.rig.connect()
        for begin in range(first, first + count, 1000):
            some = range(begin, min(begin + 1000, first + count))
            self.asks(texts(some, size), PUSHED * len(some), pusher)
        pusher.drop()

    def pull_all(self, at_once: int = 100) -> list[int]:
        """The numbers of all messages that are left, in the order in which they come."""
        peer = self.rig.connect()
        found: list[int] = []
        while True:
            some = frames(peer.send(pull() * at_once).take_all())
            found += [int(frame[14:]) for frame in some if frame != EMPTY]
            if EMPTY in some:
                peer.drop()
                return found


def from_hex(block: str) -> bytes:
    """The bytes of a block, without what stands behind a #."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in block.splitlines()))
