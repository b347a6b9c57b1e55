"""The base: deadlines, first words and the end, beyond what every protocol is tried for.

That is in `laws.test_time` and `laws.test_end`.
"""

from __future__ import annotations

from tests.rigs.protocols.orders import BaseCase

HELD_MAX = 64 << 10


class DeadlineTests(BaseCase):
    """A peer that begins a frame and never ends it is dropped after a deadline."""

    def setUp(self) -> None:
        super().setUp()
        self.rig = self.make(frame_seconds_max=30.0)
        self.peer = self.rig.connect()

    def test_never_ended(self) -> None:
        """It has so many seconds and no more."""
        self.peer.send(b">unfinished")
        self.rig.advance(29)
        self.assertFalse(self.peer.closed)
        self.rig.advance(1)
        self.assertTrue(self.peer.aborted)
        self.assertEqual(self.said("did not end what it began"), 1)
        self.assert_empty(self.rig)

    def test_greeting(self) -> None:
        """Nor does it where the bytes could still become an HTTP request."""
        self.peer.send(b"G").send(b"E")
        self.rig.advance(30)
        self.assertTrue(self.peer.aborted)

    def test_ends_one_begins_one(self) -> None:
        """One that always ends a frame and begins the next in one piece may go on like this."""
        for _ in range(10):
            self.peer.send(b"x\n>")
            self.rig.advance(20)
        self.assertFalse(self.peer.closed)
        self.rig.advance(10)
        self.assertTrue(self.peer.aborted)

    def test_not_read(self) -> None:
        """Time in which it is not read does not count; when it is read again it has all its seconds."""
        rig = self.make(frame_seconds_max=30.0, connection_buffered_bytes_max=HELD_MAX)
        peer = rig.connect()
        peer.ask(b"#a\n@a\n")
        rig.held = True
        peer.send(b">" + b"x" * HELD_MAX + b"\n>unfinished")
        self.assertFalse(peer.read)
        rig.advance(1000)
        self.assertFalse(peer.closed)
        rig.release()
        self.assertTrue(peer.read)
        rig.advance(29)
        self.assertFalse(peer.closed)
        rig.advance(1)
        self.assertTrue(peer.aborted)


class HttpTests(BaseCase):
    """No web page in a browser can speak to us."""

    def test_others(self) -> None:
        """What only looks like one is answered, wherever it is cut, as is one that is not at the beginning."""
        rig = self.make()
        for line in (b"G", b"G>x", b"GE", b"GETS x", b"GET", b"get / HTTP/1.1", b"PRIM ", b"X", b"", b"CONNECTED "):
            whole = line + b"\n&x\n"
            for cut in range(len(whole)):
                peer = rig.connect()
                told = peer.ask(whole[:cut]) + peer.ask(whole[cut:])
                self.assertEqual(told, b"-InvalidCommand\n-InvalidData\n", (line, cut))
        self.assertEqual(rig.connect().ask(b"&x\nGET / HTTP/1.1\n"), b"-InvalidData\n-InvalidCommand\n")


class EndTests(BaseCase):
    """At the end, the peer's or the daemon's, what was asked is finished and answered first."""

    def test_shut_while_not_read(self) -> None:
        """A peer that sent everything and shut its side gets all answers, also where it was not read for a while."""
        rig = self.make(connection_buffered_bytes_max=HELD_MAX)
        peer = rig.connect()
        rig.held = True
        peer.send(b"#a\n@a\n")
        for _ in range(20):
            peer.send(b">" + b"x" * 10_000 + b"\n")
        peer.send(b"<\n" * 20)
        peer.shut()
        self.assertFalse(peer.closed)
        rig.release()
        self.assertTrue(peer.closed)
        self.assertEqual(peer.wire.value(), b"+\n" * 22 + (b"+" + b"x" * 10_000 + b"\n") * 20)

    def test_drained(self) -> None:
        """It fires when the last connection is gone: at once where there is none."""
        rig = self.make()
        self.assertTrue(rig.factory.drain().called)
        peers = [rig.connect() for _ in range(3)]
        rig.held = True
        peers[0].send(b"#a\n")
        peers[1].send(b"#b\n")
        drained, again = rig.factory.drain(), rig.factory.drain()
        rig.run()
        self.assertEqual([peer.closed for peer in peers], [False, False, True])
        peers[0].drop()
        self.assertFalse(drained.called)
        rig.release()
        self.assertTrue(drained.called and again.called)
        self.assertEqual(peers[1].wire.value(), b"+\n")
        self.assert_empty(rig)
