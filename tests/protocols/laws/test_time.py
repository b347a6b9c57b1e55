"""Frames that never end, connections that say nothing, and peers that are no peers of ours."""

from __future__ import annotations

from tests.protocols.laws.description import joined
from tests.protocols.laws.every import PROTOCOLS, every
from tests.protocols.laws.held import HeldLaw

SECONDS = 30.0
METHODS = (b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE", b"PRI")


@every(PROTOCOLS)
class Deadline(HeldLaw):
    """Who begins a frame has so many seconds to end it."""

    def test_never_ended(self) -> None:
        """It is dropped then and not earlier, alone and behind requests; the others live on."""
        for before in (False, True):
            for begun in [*self.spoken.begun, *self.spoken.begun_later]:
                rig = self.make(frame_seconds_max=SECONDS)
                witness, spoken = self.other(rig, 1)
                peer = self.connected(rig) if begun in self.spoken.begun else self.opened(rig)[0]
                if before:
                    self.talk(peer, self.spoken(2).ask())
                peer.send(begun)
                rig.advance(SECONDS - 1)
                self.assertFalse(peer.closed, begun)
                rig.advance(1)
                self.assertTrue(peer.aborted, begun)
                self.talk(witness, spoken.write(b"still here"))
                self.assert_empty(rig)

    def test_trickle(self) -> None:
        """Bytes that come in time do not help a frame that does not end in time."""
        for begun in [*self.spoken.begun, *self.spoken.begun_later]:
            rig = self.make(frame_seconds_max=SECONDS)
            peer = self.connected(rig) if begun in self.spoken.begun else self.opened(rig)[0]
            pause = SECONDS / len(begun)
            for byte in begun:
                self.assertFalse(peer.closed)
                peer.send(bytes((byte,)))
                rig.advance(pause)
            rig.advance(1)
            self.assertTrue(peer.aborted, begun)
            self.assert_empty(rig)

    def test_each_frame_anew(self) -> None:
        """A peer that ends each frame in time may take its time for each."""
        rig = self.furnished(frame_seconds_max=SECONDS)
        peer = rig.connect()
        told = b""
        for asked, _ in self.spoken.transcript:
            peer.send(asked[:1])
            rig.advance(SECONDS - 1)
            told += peer.ask(asked[1:])
        self.assert_told(told, self.spoken.whole().told)

    def test_idle(self) -> None:
        """Between frames a connection may be idle for as long as it likes, from the first moment on."""
        rig = self.make(frame_seconds_max=SECONDS)
        silent = rig.connect()
        peer, spoken = self.other(rig)
        for _ in range(3):
            rig.advance(1000)
            self.talk(peer, spoken.write(b"still here"))
        self.talk(silent, joined([self.spoken.hello, self.spoken(1).ask()]))
        self.assertEqual(rig.clock.getDelayedCalls(), [])


@every(PROTOCOLS)
class Http(HeldLaw):
    """No web page in a browser can speak to us."""

    def test_cut_off(self) -> None:
        """Who begins with an HTTP request is cut off without a word or a deed, wherever it is cut."""
        rig = self.make()
        for method in METHODS:
            request = method + b" / HTTP/1.1\r\nHost: x\r\n\r\n" + self.spoken.whole().asked
            for cut in range(len(method) + 3):
                peer = rig.connect().send(request[:cut])
                # A protocol may know sooner that this is none of its frames.
                self.assertTrue(peer.closed or cut <= len(method), request[:cut])
                peer.send(request[cut:])
                self.assertTrue(peer.closed, request[:cut])
                self.assertEqual(peer.wire.value(), b"")
            peer = rig.connect()
            for byte in request[:40]:
                peer.send(bytes((byte,)))
            self.assertTrue(peer.closed)
            self.assertEqual(peer.wire.value(), b"")
        self.assertEqual(rig.store.names(), [])
        self.assert_empty(rig)

    def test_empty(self) -> None:
        """A connection that says nothing, or half a word, and goes, costs nothing and is not worth a line."""
        rig = self.make()
        said = len(list(self.events))
        for sent in (b"", b"G", *[frame[:1] for frame in self.spoken.begun]):
            for end in ("drop", "shut"):
                peer = rig.connect() if sent in (b"", b"G") else self.connected(rig)
                if sent:
                    peer.send(sent)
                getattr(peer, end)()
                self.assertTrue(peer.closed)
                self.assertFalse(peer.aborted)
        self.assertEqual(list(self.events)[said:], [])
        self.assertEqual(rig.store.names(), list(self.spoken.names))
        self.assert_empty(rig)
