"""The client of Pravega: segments, their bytes, and their events from an offset on."""

from __future__ import annotations

from streamd.client.errors import ProtocolBroken, Refused
from streamd.client.pravega import Truncated
from tests.rigs.client.pravega.case import PravegaCase
from tests.rigs.client.rig import WHOLE


class CommandTests(PravegaCase):
    def test_segment(self) -> None:
        """A segment is made once; one that is not there can't be read."""
        client = self.driven.client
        error = self.assertRaises(Refused, self.driven.run, client.create("s"))
        self.assertEqual(error.reason, "SegmentAlreadyExists")
        error = self.assertRaises(Refused, self.driven.run, client.read("t", 0))
        self.assertEqual(error.reason, "NoSuchSegment")
        self.driven.run(client.ping())

    def test_read(self) -> None:
        """Bytes of a segment, as they are stored, and whether they reach the tail."""
        self.write([b"one", b"two"])
        piece = self.driven.run(self.driven.client.read("s", 11, 5))
        self.assertEqual((len(piece.data), piece.at_tail), (5, False))
        piece = self.driven.run(self.driven.client.read("s", 11))
        self.assertEqual((piece.data[-3:], piece.at_tail, piece.at_end), (b"two", True, False))


class ReaderTests(PravegaCase):
    def test_events(self) -> None:
        """Events come out as they went in, from the beginning or from where one begins, however they are cut."""
        events = [b"%d" % number * (number % 50) for number in range(500)]
        self.write(events)
        self.assertEqual(self.stored(), events)
        for piece_bytes in (WHOLE, 1000, 1):
            offset = sum(8 + len(event) for event in events[:123])
            reader = self.reader(offset, piece_bytes=piece_bytes)
            self.assertEqual(self.events(reader), events[123:])
            self.assertEqual(reader.client.offset, self.rig.store.find("s").offset)

    def test_large(self) -> None:
        """More than one answer holds, and events larger than one piece."""
        events = [bytes([number]) * 300_000 for number in range(20)]
        for event in events:
            self.write([event])
        self.assertEqual(self.stored(), events)

    def test_offset(self) -> None:
        """The reader's offset is where the next event begins, event by event."""
        self.write([b"one", b"", b"three"])
        reader = self.reader()
        offsets = [reader.client.offset]
        for _ in range(3):
            reader.run(anext(reader.client))
            offsets.append(reader.client.offset)
        self.assertEqual(offsets, [0, 11, 19, 32])

    def test_waits(self) -> None:
        """At the tail a reader waits, also longer than the daemon does; other requests go on meanwhile."""
        client = self.driven.client
        waiting = self.driven.begin(anext(client.reader("s")))
        self.driven.turn()
        # The daemon answers that there is nothing, and is asked again.
        self.rig.advance(11)
        self.driven.turn()
        self.driven.run(client.ping())
        self.assertNoResult(waiting)
        self.write([b"late"])
        self.driven.turn()
        self.assertEqual(self.successResultOf(waiting), b"late")

    def test_stops(self) -> None:
        """One that does not wait stops at the tail, and goes on from there when it is asked again."""
        reader = self.reader()
        for event in (b"one", b"two"):
            self.write([event])
            self.assertEqual(self.events(reader), [event])

    def test_sealed(self) -> None:
        """The end of a sealed segment is the end."""
        self.write([b"last"])
        self.rig.store.seal(self.rig.store.find("s"))
        self.rig.run()
        self.assertEqual(self.events(self.reader(wait=True)), [b"last"])

    def test_truncated(self) -> None:
        """What is gone is said to be gone, and where the rest begins."""
        self.write([b"one", b"two"])
        self.rig.store.truncate(self.rig.store.find("s"), 1)
        self.rig.run()
        error = self.assertRaises(Truncated, self.events, self.reader(wait=True))
        self.assertEqual(error.first_offset, 11)
        self.assertEqual(self.events(self.reader(11)), [b"two"])

    def test_no_event(self) -> None:
        """An offset inside an event is found out."""
        self.write([b"one", b"\1\2\3\4\5\6\7\10"])
        self.assertRaises(ProtocolBroken, self.events, self.reader(19))
        self.assertRaises(ValueError, self.events, self.reader(-1))
