"""The client of Pravega: segments and their bytes."""

from __future__ import annotations

from streamd.client.errors import Refused
from tests.client.pravega.case import PravegaCase


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
