"""Protocol Buffers: messages to bytes and back, and bytes that are no message."""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from streamd.wire import WireError
from streamd.wire.controller import messages, protobuf
from streamd.wire.controller.messages import Offset, ScalingPolicy, StreamConfig, StreamCut, StreamInfo, Tags

# As Google's own library writes them.
KNOWN = [
    (messages.TxnId(1, -1), bytes.fromhex("080110ffffffffffffffffff01")),
    (StreamInfo("a", ""), bytes.fromhex("0a0161")),
    (
        messages.SegmentRange(messages.SegmentId(StreamInfo("s"), 1 << 32), 0.5, 1.0),
        bytes.fromhex("0a0b0a030a0173108080808010" + "11000000000000e03f" + "19000000000000f03f"),
    ),
    (messages.Scale(StreamInfo(), (3, 270)), bytes.fromhex("0a00" + "1003" + "108e02")),
]


class ProtobufTests(SynchronousTestCase):
    def test_known(self) -> None:
        """The bytes are those of the encoding's own page, and are read back."""
        for message, data in KNOWN:
            self.assertEqual(protobuf.encode(message), data)
            self.assertEqual(protobuf.decode(type(message), data), message)

    def test_packed(self) -> None:
        """Numbers come packed or one by one."""
        for data in ("1203038e02", "1003108e02"):
            self.assertEqual(protobuf.decode(messages.Scale, bytes.fromhex(data)).sealed, (3, 270))

    def test_unknown_fields(self) -> None:
        """Fields that are not known are skipped, whatever their type."""
        more = bytes.fromhex("f80101" + "f9010000000000000000" + "fa0103616263" + "fd0100000000")
        self.assertEqual(protobuf.decode(StreamInfo, more + b"\x0a\x01a" + more), StreamInfo("a"))

    def test_broken(self) -> None:
        """What is cut off, of a wrong type or no text is a WireError; so is nothing else that may come."""
        whole = protobuf.encode(
            StreamConfig(StreamInfo("scope", "stream"), ScalingPolicy(segments=300), None, Tags(("x",)))
        )
        for end in range(len(whole)):
            try:
                protobuf.decode(StreamConfig, whole[:end])
            except WireError:
                pass
        for bad in ("0a05", "08", "08ffffffffffffffffffff01", "0a01ff", "0801", "0b", "09"):
            self.assertRaises(WireError, protobuf.decode, StreamInfo, bytes.fromhex(bad))
        chance = random.Random(1)
        for _ in range(5000):
            try:
                protobuf.decode(chance.choice(list(messages.CALLS.values())), chance.randbytes(chance.randrange(60)))
            except WireError:
                pass

    def test_map(self) -> None:
        """A map is its entries."""
        cut = StreamCut(StreamInfo("s", "t"), (Offset(0, 10), Offset(1, 0)))
        self.assertEqual(protobuf.decode(StreamCut, protobuf.encode(cut)), cut)
