"""Simple Message Queue byte by byte, on a real store: what is sent, what is answered, and who gets what."""

from __future__ import annotations

import os
import random
import shutil
import struct
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import EventLoggingObserver
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from streamd.config import Overrides, load
from streamd.interfaces import ConfigError
from streamd.plugin import found_protocols
from streamd.protocols import smq
from streamd.protocols.sesp import SespFactory
from streamd.settings import Limits
from streamd.store import ReadFailed
from streamd.wire.smq import EMPTY, PUSHED, REFUSED
from tests.protocols.rig import BUFFER_BYTES, Peer, Rig
from tests.wire.test_smq import NUMBERS, STR, pull, push

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


class TranscriptTests(SmqCase):
    """What the document says."""

    def test_bytes(self) -> None:
        """One conversation, each byte written out."""
        conversation = [
            ("01 0000000000000000", "00 0000000000000005 20 00000000"),
            ("00 0000000000000008 00 00000003 616263", "00 0000000000000000"),
            ("00 0000000000000009 01 00000002 0102fffe", "00 0000000000000000"),
            ("00 0000000000000013 0a 00000003 6f6e6500 74776f00 746872656500", "00 0000000000000000"),
            ("01 0000000000000000", "00 0000000000000008 00 00000003 616263"),
            ("01 0000000000000000", "00 0000000000000009 01 00000002 0102fffe"),
            ("01 0000000000000000", "00 0000000000000013 0a 00000003 6f6e6500 74776f00 746872656500"),
            ("01 0000000000000000", "00 0000000000000005 20 00000000"),
        ]
        asked = [bytes.fromhex(line) for line, _ in conversation]
        told = [bytes.fromhex(line) for _, line in conversation]
        for request, response in zip(asked, told, strict=True):
            self.asks(request, response)
        whole = b"".join(asked)
        self.asks(whole, b"".join(told))
        for cut in range(1, len(whole)):
            peer = self.rig.connect()
            self.assertEqual(peer.ask(whole[:cut]) + peer.ask(whole[cut:]), b"".join(told), cut)
            peer.drop()
        self.assertEqual(b"".join(self.peer.ask(bytes([byte])) for byte in whole), b"".join(told))

    def test_every_type(self) -> None:
        """A message of each type, of any count, is pulled as it was pushed, one by one and in runs."""
        messages = [
            push(kind, count, random.Random(kind).randbytes(count * size))
            for count in (0, 1, 2, 256, 1000)
            for kind, size in NUMBERS
        ]
        messages += [push(STR, 0), push(STR, 1, b"\0"), push(STR, 1, b"a\0"), push(STR, 300, b"x\0" * 300)]
        for message in messages:
            self.asks(message, PUSHED)
            self.asks(pull(), message)
            self.asks(pull(), EMPTY)
        random.Random(1).shuffle(messages)
        self.asks(b"".join(messages), PUSHED * len(messages))
        self.asks(pull() * (len(messages) + 2), b"".join(messages) + EMPTY * 2)

    def test_code_bits(self) -> None:
        """A message that says EMPTY_QUEUE is stored as SUCCESS."""
        self.asks(push(0x20, 1, b"x") + push(0x2A, 1, b"\0"), PUSHED * 2)
        self.asks(pull() * 3, push(0, 1, b"x") + push(STR, 1, b"\0") + EMPTY)

    def test_refused(self) -> None:
        """What does not fit is answered with status 1 and not stored; its neighbours are, and all goes on."""
        wrong = [
            push(0, 2, b"x"),
            push(1, 1, b"x"),
            push(STR, 1, b"x"),
            push(STR, 2, b"x\0"),
            push(11, 0),
            push(0x10, 0),
            push(0xF0, 1, b"x"),
            struct.pack(">BQ", 0, 0),
            struct.pack(">BQ", 0, 4) + bytes(4),
        ]
        for frame in wrong:
            self.asks(frame, REFUSED)
            self.asks(pull(), EMPTY)
            self.asks(push(0, 1, b"1") + frame + push(0, 1, b"2"), PUSHED + REFUSED + PUSHED)
            self.asks(frame + pull() * 3 + frame, REFUSED + push(0, 1, b"1") + push(0, 1, b"2") + EMPTY + REFUSED)
        self.asks(b"".join(wrong), REFUSED * len(wrong))
        self.assertFalse(self.peer.closed)

    def test_pull_with_a_body(self) -> None:
        """It is a pull, once the body has passed."""
        self.fill(2)
        self.peer.send(pull(b"\xff" * 100)[:-1])
        self.assertEqual(self.peer.take(), b"")
        self.asks(b"\xff" + pull(b"x") + pull(), text(0) + text(1) + EMPTY)

    def test_unknown_action(self) -> None:
        """It closes the connection without a word, behind the answers to all before it, with its first byte already."""
        for action in (2, 0x47, 0x80, 0xFF):
            for rest in (b"", bytes(8), pull()):
                peer = self.rig.connect()
                self.asks(
                    push(0, 1, b"x") + pull() * 2 + bytes([action]) + rest, PUSHED + push(0, 1, b"x") + EMPTY, peer
                )
                self.assertEqual((peer.closed, peer.aborted), (True, False))

    def test_too_large(self) -> None:
        """A size over the limit is answered with status 1, behind all before it, then the connection closes."""
        limit = LIMITS.message_bytes_max
        largest = push(0, limit, bytes(limit))
        self.asks(largest + pull(), PUSHED + largest)
        for size in (limit + 6, 1 << 32, (1 << 64) - 1):
            for action in (0, 1):
                peer = self.rig.connect()
                frame = struct.pack(">BQ", action, size)
                self.asks(push(0, 0) + pull() + frame + push(0, 0) * 3, PUSHED + push(0, 0) + REFUSED, peer)
                self.assertEqual((peer.closed, peer.aborted), (True, False))
        self.asks(pull(), EMPTY)

    def test_http(self) -> None:
        """A browser gets nothing, and nothing is stored."""
        self.peer.send(b"POST / HTTP/1.1\r\n\r\n" + push(0, 1, b"x"))
        self.assertTrue(self.peer.aborted)
        self.assertEqual(self.rig.store.names(), [])

    def test_one_piece(self) -> None:
        """Each response is written in one piece, also where its request came byte by byte."""
        pieces: list[bytes] = []
        write = self.peer.wire.write

        def noted(data: bytes) -> None:
            pieces.append(data)
            write(data)

        self.patch(self.peer.wire, "write", noted)
        whole = push(0, 1, b"x") + pull() + pull() + push(0, 2, b"x") + push(STR, 1, b"abc\0") * 5 + pull() * 4
        for size in (1, 2, 7, 9, 50, len(whole)):
            for at in range(0, len(whole), size):
                self.peer.send(whole[at : at + size])
        for piece in pieces:
            self.assertEqual(b"".join(frames(piece)), piece)

    def test_many(self) -> None:
        """A hundred thousand messages in one run come back in one run, in order."""
        count = 100_000
        whole = texts(range(count))
        self.assertTrue(self.peer.send(whole).take_all() == PUSHED * count)
        self.assertTrue(self.peer.send(pull() * (count + 1)).take_all() == whole + EMPTY)

    def test_sizes(self) -> None:
        """Runs of pulls give what single ones do, however messages lie in commits and files."""
        chance = random.Random(5)
        messages = [text(number, chance.choice((0, 10, 1000, 40_000))) for number in range(500)]
        for at in range(0, 500, 25):
            self.peer.ask(b"".join(messages[at : at + 25]))
        at = 0
        while at < len(messages):
            count = chance.choice((1, 1, 2, 30, 100))
            some = messages[at : at + count]
            expected = b"".join(some) + EMPTY * (count - len(some))
            self.assertTrue(self.peer.send(pull() * count).take_all() == expected)
            at += count


class OrderTests(SmqCase):
    """Writes are answered when they are on disk, reads at once; a connection reads its own writes."""

    def test_own_pushes(self) -> None:
        """Pulls among pushes in one segment see just the pushes before them."""
        asked = pull() + text(1) + pull() * 2 + text(2) + text(3) + pull() * 3
        self.asks(asked, EMPTY + PUSHED + text(1) + EMPTY + PUSHED * 2 + text(2) + text(3) + EMPTY)

    def test_commit_before_the_reply(self) -> None:
        """A push is answered when it is on disk, and pulled by others not earlier; also the one that makes a queue."""
        other = self.rig.connect()
        for number in range(2):
            self.rig.held = True
            self.asks(text(number), b"")
            self.asks(pull(), EMPTY, other)
            self.rig.release()
            self.assertEqual(self.peer.take(), PUSHED)
            self.asks(pull(), text(number), other)

    def test_pushes_do_not_wait(self) -> None:
        """Pushes of several types that make the queue are all under way at once, and are stored in order."""
        self.rig.held = True
        others = [self.rig.connect() for _ in range(3)]
        for number, peer in enumerate([self.peer, *others]):
            peer.send(push(number, 0) + push(number + 4, 0))
        self.rig.release()
        for peer in (self.peer, *others):
            self.assertEqual(peer.take(), PUSHED * 2)
        self.asks(pull() * 9, b"".join(push(number, 0) + push(number + 4, 0) for number in range(4)) + EMPTY)

    def test_pull_does_not_wait(self) -> None:
        """While no commit gets through, messages are pulled by others, each once."""
        self.fill(5)
        self.rig.held = True
        self.asks(pull() * 2, text(0) + text(1))
        self.asks(pull(), text(2), self.rig.connect())
        self.asks(pull() * 3, text(3) + text(4) + EMPTY)
        self.rig.release()
        self.asks(pull(), EMPTY)

    def test_own_push_is_waited_for(self) -> None:
        """But a pull behind a push of the same connection waits for that, and all behind it too."""
        self.fill(1)
        self.rig.held = True
        self.asks(text(1) + pull() + text(2) + pull(), b"")
        self.rig.release()
        self.assertEqual(self.peer.take(), PUSHED + text(0) + PUSHED + text(1))


class PullerTests(SmqCase):
    """Many pullers, and none gets what another one has."""

    def test_any_pullers(self) -> None:
        """Pullers that come and go, pulling in runs of any length beside pushers: each message comes once."""
        for seed in range(5):
            chance = random.Random(seed)
            peers = [self.rig.connect() for _ in range(5)]
            pushed = 0
            pulled: list[int] = []
            for _ in range(300):
                peer = chance.choice(peers)
                if chance.random() < 0.4:
                    count = chance.randint(1, 20)
                    self.asks(texts(range(pushed, pushed + count), chance.choice((0, 500))), PUSHED * count, peer)
                    pushed += count
                else:
                    found = frames(peer.send(pull() * chance.randint(1, 15)).take_all())
                    numbers = [int(frame[14:]) for frame in found if frame != EMPTY]
                    self.assertEqual(numbers, sorted(numbers))
                    pulled += numbers
                if chance.random() < 0.05:
                    peer.drop()
                    peers[peers.index(peer)] = self.rig.connect()
            pulled += self.pull_all()
            self.assertEqual(pulled, list(range(pushed)))
            for peer in peers:
                peer.drop()

    def test_removed(self) -> None:
        """What was pulled goes from the segment too."""
        self.fill(100)
        self.asks(pull() * 100, texts(range(100)))
        self.assertIn(b'"messages": 0, "first_offset": 100, "next_offset": 100', self.sesp(b"?smq\n"))

    def slow_peer(self, count: int) -> Peer:
        """A puller that asks for so many and takes none."""
        peer = self.rig.connect()
        peer.wire.slow = True
        peer.send(pull() * count)
        self.assertFalse(peer.read)
        self.assertGreater(len(peer.wire.value()), BUFFER_BYTES)
        return peer

    def test_dropped(self) -> None:
        """What is still in our buffers when a connection drops is the next to be pulled, in order."""
        self.fill(100, LARGE)
        self.slow_peer(100).drop()
        self.assertEqual(self.pull_all(), list(range(100)))

    def test_dropped_in_part(self) -> None:
        """What it took before stays with it."""
        self.fill(200, LARGE)
        peer = self.slow_peer(200)
        taken = frames(peer.take())
        self.assertFalse(peer.read)
        peer.drop()
        self.assertTrue(b"".join(taken) == texts(range(len(taken)), LARGE))
        self.assertGreater(len(taken), 5)
        self.assertEqual(self.pull_all(), list(range(len(taken), 200)))

    def test_several_dropped(self) -> None:
        """Of several that drop in any order, with new messages meanwhile, all comes in the order of the pushes."""
        self.fill(200, LARGE)
        slow = [self.slow_peer(100) for _ in range(4)]
        self.fill(10, LARGE, first=200)
        for peer in (slow[2], slow[0], slow[3]):
            peer.drop()
        begun = frames(slow[1].wire.value())
        kept = [int(frame[14:]) for frame in begun]
        self.assertEqual(self.pull_all(), [number for number in range(210) if number not in kept])
        self.assertTrue(slow[1].take_all().startswith(b"".join(begun)))

    def test_others_go_on(self) -> None:
        """One that takes nothing holds up nobody: the others get what it has not."""
        self.fill(200, LARGE)
        slow = self.slow_peer(200)
        kept = len(frames(slow.wire.value()))
        self.assertEqual(self.pull_all(), list(range(kept, 200)))
        # It asked for more, and there is none by now.
        self.assertTrue(slow.take_all() == texts(range(kept), LARGE) + EMPTY * (200 - kept))

    def test_dropped_while_reading(self) -> None:
        """A pull behind a push that is not on disk yet, and the peer gone: nothing was taken."""
        self.fill(1)
        self.rig.held = True
        self.peer.send(text(1) + pull() * 2)
        self.peer.drop()
        self.rig.release()
        self.assertEqual(self.pull_all(), [0, 1])

    def test_dropped_anywhere(self) -> None:
        """A peer that goes after any byte leaves nothing half done, and what is stored is pulled once."""
        whole = text(1) + pull() + push(0, 9, b"x") + text(2) + text(3) + pull(b"body") + pull() * 2
        for held in (False, True):
            for cut in range(len(whole) + 1):
                self.rig.held = held
                peer = self.rig.connect().send(whole[:cut])
                had = [frame for frame in frames(peer.wire.value()) if len(frame) > 14]
                peer.drop()
                self.rig.release()
                found = [int(frame[14:]) for frame in had] + self.pull_all()
                self.assertEqual(found, [1, 2, 3][: len(found)])
        for peer in list(self.rig.peers):
            peer.drop()
        self.assertEqual((self.rig.load.connections, self.rig.load.held_bytes), (0, 0))


class ColdTests(SmqCase):
    """Messages that are read in a thread, since they are not in memory: meanwhile nobody else can have them."""

    def setUp(self) -> None:
        super().setUp()
        self.reads: list[Deferred[None]] = []

    def cool(self) -> None:
        """From now on a read is done when `warm` says so."""
        read = self.rig.store.read

        def later(*args: Any, **keywords: Any) -> Deferred[Any]:
            self.reads.append(Deferred())
            return self.reads[-1].addCallback(lambda _: read(*args, **keywords))

        self.patch(self.rig.store, "read", later)

    def warm(self, at: int = 0) -> None:
        """Let a read be done, the oldest one if nothing is said."""
        self.reads.pop(at).callback(None)
        self.rig.run()

    def test_not_empty(self) -> None:
        """Who pulls while another one is still reading is not told that there is nothing: it gets what that leaves."""
        self.fill(50, LARGE)
        self.cool()
        other = self.rig.connect()
        self.peer.send(pull() * 50)
        self.asks(pull(), b"", other)
        self.warm()
        # A reply has so many bytes: the rest is for everybody again.
        count = len(frames(self.peer.wire.value()))
        self.assertTrue(0 < count < 50)
        while self.reads:
            self.warm()
        self.assertTrue(other.take() == text(count, LARGE))
        self.assertTrue(self.peer.take() == texts([number for number in range(50) if number != count], LARGE) + EMPTY)

    def test_empty_in_the_end(self) -> None:
        """Where nothing is left, it is told so then."""
        self.fill(3)
        self.cool()
        other = self.rig.connect()
        self.peer.send(pull() * 3)
        self.asks(pull() * 2, b"", other)
        self.warm()
        self.assertEqual(self.peer.take(), texts(range(3)))
        self.assertEqual(other.take(), EMPTY * 2)

    def test_dropped(self) -> None:
        """What was being read for one that is gone goes to those who wait, in order."""
        self.fill(5)
        self.cool()
        others = [self.rig.connect() for _ in range(3)]
        self.peer.send(pull() * 5)
        for other in others:
            self.asks(pull() * 2, b"", other)
        self.peer.drop()
        others[1].drop()
        self.warm()
        while self.reads:
            self.warm()
        self.assertEqual(others[0].take(), texts(range(2)))
        self.assertEqual(others[2].take(), texts(range(2, 4)))

    def test_unreadable(self) -> None:
        """Where the read fails, they go on too."""
        self.fill(2)
        self.cool()
        other = self.rig.connect()
        self.peer.send(pull() * 2)
        self.asks(pull() * 2, b"", other)
        self.reads.pop().errback(ReadFailed("for a test"))
        self.rig.run()
        self.assertEqual(self.peer.take(), EMPTY * 2)
        self.warm()
        self.assertEqual(other.take(), texts(range(2)))

    def test_drain(self) -> None:
        """At the end, those who wait are answered."""
        self.fill(5)
        self.cool()
        other = self.rig.connect()
        self.peer.send(pull() * 3)
        other.send(pull() * 3)
        drained = self.rig.factory.drain()
        self.assertFalse(drained.called)
        while self.reads:
            self.warm()
        self.assertTrue(drained.called)
        self.assertEqual(self.peer.wire.value(), texts(range(3)))
        self.assertEqual(other.wire.value(), texts([3, 4]) + EMPTY)


class EndTests(SmqCase):
    """At the end, the peer's or the daemon's, what was asked is answered, and what was answered is done."""

    def test_half_closed(self) -> None:
        """A peer that sends everything and shuts its side gets all answers, then the end."""
        self.rig.held = True
        self.peer.send(text(1) + text(2) + pull() * 3 + text(3)[:-1])
        self.peer.shut()
        self.rig.release()
        self.assertTrue(self.peer.closed)
        self.assertEqual(self.peer.wire.value(), PUSHED * 2 + text(1) + text(2) + EMPTY)
        self.assertEqual(self.pull_all(), [])

    def ask_slowly(self, count: int, at_once: int) -> Peer:
        """A puller that asks for so many, so many in one segment, and takes none."""
        peer = self.rig.connect()
        peer.wire.slow = True
        for _ in range(0, count, at_once):
            peer.send(pull() * at_once)
        self.assertTrue(peer.wire.full)
        return peer

    def test_slow_and_half_closed(self) -> None:
        """One that takes its answers slowly after it shut its side gets each message, and nobody else does."""
        for count, at_once in ((20, 20), (100, 100), (10, 5)):
            self.fill(count, LARGE)
            peer = self.ask_slowly(count, at_once)
            peer.shut()
            self.assertFalse(peer.closed)
            self.assertTrue(peer.take_all() == texts(range(count), LARGE))
            self.assertEqual((peer.closed, peer.aborted), (True, False))
            self.assertEqual(self.pull_all(), [])

    def test_drain(self) -> None:
        """At shutdown it is the same."""
        for count, at_once in ((20, 20), (100, 100), (10, 5)):
            self.fill(count, LARGE)
            peer = self.ask_slowly(count, at_once)
            drained = self.rig.factory.drain()
            self.assertFalse(drained.called)
            self.assertTrue(peer.take_all() == texts(range(count), LARGE))
            self.assertTrue(drained.called and peer.closed and not peer.aborted)
            self.restart()
            self.assertEqual(self.pull_all(), [])

    def test_drained_push(self) -> None:
        """A push that was read before the end is stored and answered."""
        self.rig.held = True
        self.peer.send(text(1))
        self.rig.factory.drain()
        self.peer.send(text(2))
        self.rig.release()
        self.assertTrue(self.peer.closed)
        self.assertEqual(self.peer.wire.value(), PUSHED)
        self.restart()
        self.assertEqual(self.pull_all(), [1])

    def test_drain_deadline(self) -> None:
        """Who does not take its answers in time is cut off, and its messages stay."""
        self.fill(100, LARGE)
        peer = self.rig.connect()
        peer.wire.slow = True
        peer.send(pull() * 100)
        self.rig.factory.drain()
        self.rig.advance(self.rig.limits.drain_seconds_max)
        self.assertTrue(peer.aborted)
        self.restart()
        self.assertEqual(self.pull_all(), list(range(100)))


class DurabilityTests(SmqCase):
    """Messages outlive the daemon."""

    def test_restart(self) -> None:
        """What was pushed and not pulled is there after a restart, with its type; what was pulled is not."""
        messages = [push(kind, 1, bytes(range(size))) for kind, size in NUMBERS] + [push(STR, 2, b"a\0b\0")]
        self.asks(b"".join(messages), PUSHED * len(messages))
        for message in messages:
            self.restart()
            self.asks(pull(), message)
        self.restart()
        self.asks(pull(), EMPTY)

    def test_crash(self) -> None:
        """A removal that was not on disk has not been: the message comes again, and none is lost."""
        self.fill(10)
        self.asks(pull() * 3, texts(range(3)))
        self.rig.held = True
        self.asks(pull() * 4, texts(range(3, 7)))
        self.crash()
        self.assertEqual(self.pull_all(), list(range(3, 10)))

    def test_crash_with_holes(self) -> None:
        """Also where what was acknowledged lies behind what was not."""
        self.fill(300, LARGE)
        slow = self.rig.connect()
        slow.wire.slow = True
        slow.send(pull() * 100)
        kept = len(frames(slow.wire.value()))
        quick = self.rig.connect()
        self.assertTrue(quick.send(pull() * 100).take_all() == texts(range(kept, kept + 100), LARGE))
        self.crash()
        self.assertEqual(self.pull_all(), [*range(kept), *range(kept + 100, 300)])

    def test_later_write(self) -> None:
        """Once any later push is acknowledged, the removals before it are on disk too."""
        self.fill(5)
        self.rig.held = True
        self.asks(pull() * 3, texts(range(3)))
        self.peer.send(text(5))
        self.rig.release()
        self.assertEqual(self.peer.take(), PUSHED)
        self.crash()
        self.assertEqual(self.pull_all(), [3, 4, 5])

    def test_any_crash(self) -> None:
        """Pushes, pulls and crashes at random: nothing acknowledged is lost; only what was pulled last may recur."""
        chance = random.Random(3)
        pushed = 0
        pulled: set[int] = set()
        for _ in range(40):
            settled = set(pulled)
            for _ in range(chance.randint(1, 6)):
                self.rig.held = False
                self.rig.run()
                settled = set(pulled)
                count = chance.randint(1, 30)
                self.asks(texts(range(pushed, pushed + count)), PUSHED * count)
                pushed += count
                self.rig.held = chance.random() < 0.5
                found = frames(self.peer.ask(pull() * chance.randint(1, 30)))
                numbers = {int(frame[14:]) for frame in found if frame != EMPTY}
                self.assertEqual(numbers & settled, set())
                pulled |= numbers
            if not self.rig.held:
                settled = set(pulled)
            self.crash()
            pulled = settled
        left = self.pull_all()
        self.assertEqual(sorted(left), left)
        self.assertEqual(set(left) | pulled, set(range(pushed)))
        self.assertEqual(set(left) & pulled, set())


class OthersTests(SmqCase):
    """The queue is a segment like all others."""

    def test_published(self) -> None:
        """What SESP published is pulled: as a string, since that is all it can publish."""
        self.assertEqual(self.sesp("#smq\n@smq\n>hello\n>\n>grüße\n".encode()), b"+\n" * 5)
        expected = [b"hello\0", b"\0", "grüße\0".encode()]
        self.asks(pull() * 4, b"".join(push(STR, 1, data) for data in expected) + EMPTY)

    def test_foreign(self) -> None:
        """What is no UTF-8, or holds a NUL, is pulled as bytes; among messages of our own, each in its place."""
        self.asks(push(1, 1, b"ab"), PUSHED)
        self.rig.publish("smq", b"text", b"\xff\xfe", b"a\0b", b"more")
        self.asks(push(1, 1, b"cd"), PUSHED)
        foreign = push(STR, 1, b"text\0") + push(0, 2, b"\xff\xfe") + push(0, 3, b"a\0b") + push(STR, 1, b"more\0")
        self.asks(pull() * 7, push(1, 1, b"ab") + foreign + push(1, 1, b"cd") + EMPTY)

    def test_read(self) -> None:
        """What was pushed is read by SESP, without the metadata, until it is pulled."""
        self.asks(push(0, 5, b"bytes") + push(STR, 1, b"text\0") + push(1, 1, b"\xff\n"), PUSHED * 3)
        self.assertEqual(self.sesp(b"@smq\n<\n<\n<\n<\n"), b"+\n+bytes\n+text\0\n*\\xff\\n\n-None\n")
        self.asks(pull(), push(0, 5, b"bytes"))
        self.asks(pull() * 2, push(STR, 1, b"text\0") + push(1, 1, b"\xff\n"))
        self.assertEqual(self.sesp(b"@smq\n<\n$3\n<\n"), b"+\n-OffsetTruncated\n+\n-None\n")

    def test_group(self) -> None:
        """The group is shown."""
        self.fill(10)
        self.asks(pull() * 4, texts(range(4)))
        self.assertIn(b'"groups": {"smq": {"position": 4, "lag": 6', self.sesp(b"?smq\n"))

    def test_deleted(self) -> None:
        """A queue that is deleted is empty, and made again by the next push; the connections do not notice."""
        self.fill(5)
        self.asks(pull(), text(0))
        self.assertEqual(self.sesp(b"!smq\n"), b"+\n")
        self.asks(pull() * 2, EMPTY * 2)
        self.asks(text(7) + pull() * 2, PUSHED + text(7) + EMPTY)
        self.fill(2)
        self.restart()
        self.assertEqual(self.pull_all(), [0, 1])

    def test_deleted_with_unsent(self) -> None:
        """What somebody had of the deleted one does not come back into the new one."""
        self.fill(100, LARGE)
        slow = self.rig.connect()
        slow.wire.slow = True
        slow.send(pull() * 100)
        self.assertEqual(self.sesp(b"!smq\n"), b"+\n")
        self.fill(3)
        slow.drop()
        self.assertEqual(self.pull_all(), [0, 1, 2])

    def test_deleted_and_taken(self) -> None:
        """Nor does an acknowledgement for the old one touch the new one."""
        self.fill(50, LARGE)
        slow = self.rig.connect()
        slow.wire.slow = True
        slow.send(pull() * 20)
        self.assertEqual(self.sesp(b"!smq\n"), b"+\n")
        self.fill(30)
        self.assertTrue(slow.take_all() == texts(range(20), LARGE))
        self.assertEqual(self.pull_all(), list(range(30)))

    def test_deleted_while_pushing(self) -> None:
        """A push that meets a deletion on its way to the disk is refused or stored, and the next one is stored."""
        self.fill(1)
        self.rig.held = True
        other = self.rig.connect(self.sesp_factory).send(b"!smq\n")
        self.peer.send(text(1) + text(2))
        self.rig.release()
        self.assertEqual(other.take(), b"+\n")
        self.assertEqual(self.peer.take(), REFUSED * 2)
        self.asks(text(3), PUSHED)
        self.assertEqual(self.pull_all(), [3])

    def test_truncated(self) -> None:
        """What somebody truncates is gone, and the next message is the next."""
        self.fill(10)
        self.asks(pull(), text(0))
        self.assertEqual(self.sesp(b"@smq\n%6\n"), b"+\n+\n")
        self.asks(pull() * 5, texts(range(6, 10)) + EMPTY)

    def test_sealed(self) -> None:
        """A sealed one takes no more and gives what it has."""
        self.fill(2)
        self.assertEqual(self.sesp(b"=smq\n"), b"+\n")
        self.asks(text(3) + pull() * 3 + text(4), REFUSED + text(0) + text(1) + EMPTY + REFUSED)


class TroubleTests(SmqCase):
    """What the store can't do is told, and the rest goes on."""

    def test_full(self) -> None:
        """While the disk is full pushes are answered with status 1, pulls go on, and with room everything does."""
        self.fill(10)
        self.rig.disk.full = True
        self.asks(text(10) + text(11), REFUSED * 2)
        self.asks(text(12) + pull() * 2 + push(1, 1, b"ab"), REFUSED + text(0) + text(1) + REFUSED)
        self.rig.disk.full = False
        self.rig.advance(5)
        self.asks(text(13) + pull(), PUSHED + text(2))
        self.assertEqual(self.pull_all(), [*range(3, 10), 13])
        # What was pulled meanwhile could not be noted then; it was later.
        self.assertEqual(self.rig.store.find("smq").first_number, 11)
        self.restart()
        self.assertEqual(self.pull_all(), [])

    def test_full_at_the_first(self) -> None:
        """Also where there is no queue yet; nothing is left of it."""
        self.rig.disk.full = True
        self.asks(text(1) + text(2) + pull(), REFUSED * 2 + EMPTY)
        self.rig.disk.full = False
        self.rig.advance(5)
        self.assertEqual(self.rig.store.names(), [])
        self.asks(text(3) + pull() * 2, PUSHED + text(3) + EMPTY)

    def test_full_in_flight(self) -> None:
        """What is pending when the disk is found full is refused, each push of it."""
        self.fill(1)
        self.rig.held = True
        self.peer.send(text(1) + push(1, 1, b"ab"))
        self.peer.send(text(2) + pull() * 2)
        self.rig.disk.full = True
        self.rig.release()
        self.assertEqual(self.peer.take(), REFUSED * 3 + text(0) + EMPTY)

    def test_unreadable(self) -> None:
        """A message that the disk does not give back stays; who pulls is told that there is none, and the log why."""
        events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        self.asks(push(0, 9, b"a message"), PUSHED)
        (path,) = [path for path in Path(self.rig.directory).rglob("*.journal") if b"a message" in path.read_bytes()]
        place = path.read_bytes().index(b"a message")

        def spoil(data: bytes) -> None:
            with path.open("r+b") as file:
                file.seek(place)
                file.write(data)

        spoil(b"A")
        self.asks(pull() * 2, EMPTY * 2)
        self.assertTrue([event for event in events if "can't be read" in str(event.get("log_format"))])
        spoil(b"a")
        self.asks(pull() * 2, push(0, 9, b"a message") + EMPTY)

    def test_flood(self) -> None:
        """Who pushes and does not take the replies is no longer read; when it takes them, everything was done."""
        self.peer.wire.slow = True
        for _ in range(50):
            self.peer.send(push(0, 0) * 1000)
        self.assertGreater(self.peer.waiting_bytes, 0)
        self.assertEqual(self.peer.take_all(), PUSHED * 50_000)
        self.assertEqual(self.rig.store.find("smq").number, 50_000)

    def test_overdue(self) -> None:
        """Who does not end its frame is dropped, also in a body that nobody wants."""
        for begun in (b"\0", push(0, 5, b"whole")[:-1], pull(b"body")[:-1]):
            peer = self.rig.connect().send(begun)
            self.rig.advance(self.rig.limits.frame_seconds_max)
            self.assertTrue(peer.aborted, begun)


class QueuesTests(SmqCase):
    """One queue for an endpoint, several on several."""

    def configured(self, text: str) -> list[Any]:
        """The factories of all SMQ endpoints of a configuration, in order."""
        path = Path(self.mktemp())
        path.write_text(text)
        config = load(str(path), Overrides(), found_protocols(), Clock())
        services = [each for each in config.services if each.protocol.name == "smq"]
        return [each.protocol.factory(self.rig.core, each.settings) for each in services]

    def test_default(self) -> None:
        """Without a word it is `smq`."""
        (factory,) = self.configured("")
        self.asks(text(1), PUSHED, self.rig.connect(factory))
        self.assertEqual(self.rig.store.names(), ["smq"])
        self.asks(pull(), text(1))

    def test_several(self) -> None:
        """What is pushed to one is pulled from that one alone."""
        first, second = self.configured(
            '[[smq]]\nendpoint = "tcp:1"\nqueue = "orders"\n[[smq]]\nendpoint = "tcp:2"\nqueue = "grüße/2"\n'
        )
        one, other = self.rig.connect(first), self.rig.connect(second)
        self.asks(text(1) + text(2), PUSHED * 2, one)
        self.asks(pull() + text(3), EMPTY + PUSHED, other)
        self.assertEqual(self.rig.store.names(), ["orders", "grüße/2"])
        self.asks(pull() * 3, text(1) + text(2) + EMPTY, one)
        self.asks(pull() * 2, text(3) + EMPTY, other)
        self.asks(pull(), EMPTY)

    def test_one_on_several_endpoints(self) -> None:
        """A queue with two endpoints, in one table or in two, is still one: nobody gets what another one has."""
        for name, table in (
            ("a", '[smq]\nendpoint = ["tcp:1", "unix:x"]\nqueue = "a"\n'),
            ("b", '[[smq]]\nendpoint = "tcp:1"\nqueue = "b"\n[[smq]]\nendpoint = "tcp:2"\nqueue = "b"\n'),
        ):
            first, second = self.configured(table)
            one, other = self.rig.connect(first), self.rig.connect(second)
            self.asks(texts(range(6)), PUSHED * 6, one)
            self.rig.held = True
            self.asks(pull() * 2, texts(range(2)), one)
            self.asks(pull() * 2, texts(range(2, 4)), other)
            self.asks(pull() * 3, texts(range(4, 6)) + EMPTY, one)
            self.asks(pull(), EMPTY, other)
            self.rig.release()
            self.assertEqual(self.rig.store.find(name).first_number, 6)

    def test_bad(self) -> None:
        """A name that no segment can have, and a key that is none, are refused with the place."""
        for table in ('queue = ""', f'queue = "{"x" * 256}"', 'queue = "a\\u0000"', "queue = 1", 'queues = "a"'):
            error = self.assertRaises(ConfigError, self.configured, f"[smq]\n{table}\n")
            self.assertIn("smq.queue", str(error))
