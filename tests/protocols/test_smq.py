"""Simple Message Queue byte by byte, on a real store: what is sent, what is answered, and in which order."""

from __future__ import annotations

import random
import struct
from typing import Any

from twisted.internet.testing import EventLoggingObserver
from twisted.logger import LogLevel, globalLogPublisher

from streamd.wire.smq import EMPTY, PUSHED, REFUSED
from tests.rigs.protocols.smq_case import LARGE, SmqCase, frames, text, texts
from tests.rigs.wire.smq import NUMBERS, STR, pull, push


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

    def test_many_strings(self) -> None:
        """Strings whose number was told by its low byte, as the public library does, are pulled with their number."""
        for elements in (255, 256, 257, 1000):
            data = b"x\0" * elements
            for count in {elements, elements % 256}:
                self.asks(push(STR, count, data) + pull(), PUSHED + push(STR, elements, data))

    def test_goodbye(self) -> None:
        """The public client's goodbye ends the connection behind all answers: nobody is warned, nothing counted."""
        events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        traffic = self.rig.load.traffic_of("smq")
        for held in (False, True):
            for cut in range(10):
                peer = self.rig.connect()
                goodbye = struct.pack(">BQ", 0xFF, 0)
                self.rig.held = held
                peer.send(text(1) + pull() + goodbye[:cut]).send(goodbye[cut:]).send(pull())
                self.rig.release()
                self.assertEqual(peer.wire.value(), PUSHED + text(1))
                self.assertEqual((peer.closed, peer.aborted), (True, False))
        self.assertEqual((+traffic.connections_cut_off, +traffic.requests_refused), ({}, {}))
        self.assertEqual([event for event in events if event["log_level"] >= LogLevel.warn], [])

    def test_pull_with_a_body(self) -> None:
        """It is a pull, once the body has passed."""
        self.fill(2)
        self.peer.send(pull(b"\xff" * 100)[:-1])
        self.assertEqual(self.peer.take(), b"")
        self.asks(b"\xff" + pull(b"x") + pull(), text(0) + text(1) + EMPTY)

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
        """A push that follows a deletion which is on its way to the disk makes the queue anew, and is stored there."""
        self.fill(1)
        self.rig.held = True
        other = self.rig.connect(self.sesp_factory).send(b"!smq\n")
        self.peer.send(text(1) + text(2))
        self.rig.release()
        self.assertEqual(other.take(), b"+\n")
        self.assertEqual(self.peer.take(), PUSHED * 2)
        self.asks(text(3), PUSHED)
        self.assertEqual(self.pull_all(), [1, 2, 3])

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
