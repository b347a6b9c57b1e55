"""gRPC's frames: whatever comes, nothing but an error in its place, and little is kept of it."""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from streamd.wire.controller.grpc import GrpcCodec
from streamd.wire.controller.messages import CALLS, SERVICE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class GrpcTests(SynchronousTestCase):
    def test_anything(self) -> None:
        """Frames of any kind with anything in them break the protocol, or do not; nothing is raised."""
        chance = random.Random(6)
        broken = 0
        for _ in range(2000):
            codec = GrpcCodec(SERVICE, CALLS, 1000)
            data = bytearray(PREFACE)
            for _ in range(chance.randrange(6)):
                size = chance.randrange(40)
                data += size.to_bytes(3) + bytes([chance.randrange(11), chance.randrange(256)])
                data += chance.choice([0, 1, 1, 3, 5]).to_bytes(4) + chance.randbytes(size)
            codec.receive(bytes(data))
            codec.control()
            broken += codec.error is not None
        self.assertGreater(broken, 1000)

    def test_sizes(self) -> None:
        """A frame over HTTP/2's own limit is refused by its header."""
        for size, is_broken in ((16_384, False), (16_385, True), ((1 << 24) - 1, True)):
            codec = GrpcCodec(SERVICE, CALLS, 1000)
            codec.receive(PREFACE + size.to_bytes(3) + bytes(6))
            self.assertEqual(codec.error is not None, is_broken)
            self.assertEqual(codec.buffered, 0 if is_broken else 9)

    def test_other_protocols(self) -> None:
        """What does not begin as HTTP/2 does is refused at the first byte that differs."""
        for data in (b"GET / HTTP/1.1\r\n", b"PRI * HTTP/1", b"\x16\x03\x01"):
            codec = GrpcCodec(SERVICE, CALLS, 1000)
            codec.receive(data)
            self.assertIsNotNone(codec.error)
