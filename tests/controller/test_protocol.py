"""The controller's calls, over HTTP/2 as a client of gRPC sends them, on a real store and by a clock of the test."""

from __future__ import annotations

from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded, StreamReset, TrailersReceived
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.controller.protocol import ControllerFactory, ControllerSettings, configure
from streamd.interfaces import ConfigError
from streamd.store.names import VALUE_BYTES_MAX
from streamd.wire.controller import messages as wire
from streamd.wire.controller import protobuf
from streamd.wire.controller.grpc import Code
from streamd.wire.controller.messages import PingStatus, TxnState
from tests.rigs.access.rules import NOBODY, rule
from tests.rigs.protocols.rig import Peer, Rig

_STREAM = wire.StreamInfo("scope", "stream")
_TOPIC = "scope/stream/0.#epoch.0"


def config(segments: int = 2, *tags: str, stream: wire.StreamInfo = _STREAM) -> wire.StreamConfig:
    return wire.StreamConfig(stream, wire.ScalingPolicy(segments=segments), None, wire.Tags(tags))


class Client:
    """A client's end of a connection."""

    def __init__(self, rig: Rig) -> None:
        self.peer: Peer = rig.connect()
        self.h2: Any = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.answers: dict[int, tuple[int, bytes]] = {}
        self._bodies: dict[int, bytes] = {}

    def ask(self, method: str, message: protobuf.Message) -> int:
        """Put a call into what is sent next; its number."""
        stream: int = self.h2.get_next_available_stream_id()
        path = method if method.startswith("/") else f"/{wire.SERVICE}/{method}"
        self.h2.send_headers(
            stream, [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), ("te", "trailers")]
        )
        body = protobuf.encode(message)
        self.h2.send_data(stream, b"\0" + len(body).to_bytes(4) + body, end_stream=True)
        return stream

    def send(self, *cuts: int) -> None:
        """Send what is to be sent, cut there, and take the answers."""
        data = self.h2.data_to_send()
        for begin, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
            self.take(self.peer.ask(data[begin:end]))

    def take(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            if isinstance(event, DataReceived):
                self._bodies[event.stream_id] = self._bodies.get(event.stream_id, b"") + (event.data or b"")
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, TrailersReceived):
                status = int(dict(event.headers or [])["grpc-status"])  # type: ignore[index]
                self.answers[event.stream_id] = (status, self._bodies.pop(event.stream_id, b"")[5:])
            elif isinstance(event, StreamReset):
                self.answers[event.stream_id or 0] = (-1, b"")
            else:
                assert isinstance(event, StreamEnded) or event is not None

    def call(self, method: str, message: protobuf.Message) -> tuple[int, bytes]:
        """Make a call and wait for its answer: the status of gRPC, and the message."""
        stream = self.ask(method, message)
        self.send()
        return self.answers.pop(stream)

    def status(self, method: str, message: protobuf.Message) -> int:
        """The status in the answer to a call that went well."""
        code, answer = self.call(method, message)
        assert code == Code.OK, (method, code)
        return protobuf.decode(wire.Status, answer).status


class Case(SynchronousTestCase):
    settings = ControllerSettings()

    def setUp(self) -> None:
        self.rig = Rig(self.mktemp(), make_factory=lambda core: ControllerFactory(core, self.settings))
        self.addCleanup(self.rig.close)
        self.client = Client(self.rig)

    def restart(self) -> None:
        """Close the store and open it again."""
        self.rig.close()
        self.rig = Rig(self.rig.directory, make_factory=lambda core: ControllerFactory(core, self.settings))
        self.addCleanup(self.rig.close)
        self.client = Client(self.rig)

    def furnish(self) -> None:
        """A scope with a stream."""
        self.assertEqual(self.client.status("createScope", wire.ScopeInfo("scope")), 0)
        self.assertEqual(self.client.status("createStream", config()), 0)


class CallTests(Case):
    """Calls and their answers."""

    def test_cut_anywhere(self) -> None:
        """Calls are the same wherever TCP cuts them, and however many come at once."""
        asked = [
            ("createScope", wire.ScopeInfo("scope")),
            ("createStream", config(3)),
            ("listScopes", wire.ScopesRequest()),
        ]
        length = None
        for cut in range(0, 10_000, 3):
            if length is not None and cut >= length:
                break
            self.setUp()
            streams = [self.client.ask(*each) for each in asked]
            length = len(self.client.h2._data_to_send)
            self.client.send(cut)
            self.assertEqual(
                [self.client.answers[stream] for stream in streams],
                [(0, b""), (0, b""), (0, b"\x0a\x05scope\x12\x03\x0a\x011")],
            )
            self.rig.close()

    def test_names(self) -> None:
        """Names, sizes and numbers that can't be are refused, and nothing is made."""
        self.assertEqual(self.client.status("createScope", wire.ScopeInfo("a/b")), 3)
        self.assertEqual(self.client.status("createScope", wire.ScopeInfo("scope")), 0)
        self.assertEqual(self.client.status("createScope", wire.ScopeInfo("scope")), 2)
        self.assertEqual(self.client.status("createStream", config(stream=wire.StreamInfo("none", "s"))), 3)
        for name in ("s/t", "", "x" * 185, "\u00e9" * 93):
            self.assertEqual(self.client.status("createStream", config(stream=wire.StreamInfo("scope", name))), 4)
        for bad in (config(1001), config(1, "x" * VALUE_BYTES_MAX)):
            self.assertEqual(self.client.call("createStream", bad)[0], Code.INVALID_ARGUMENT)
        self.assertEqual(self.rig.store.names(), ["_pravega/controller"])

    def test_unknown(self) -> None:
        """What is no call of the service, or scaling, is answered so; the connection goes on."""
        self.furnish()
        for method in ("createReaderGroup", "/another.Service/createScope", "scale", "checkScale"):
            self.assertEqual(self.client.call(method, wire.Scale(_STREAM))[0], Code.UNIMPLEMENTED, method)
        self.assertEqual(self.client.call("scale", wire.Token("no stream"))[0], Code.INVALID_ARGUMENT)
        self.assertEqual(self.client.call("getCurrentSegments", wire.StreamInfo("scope", "none"))[0], Code.NOT_FOUND)
        self.assertEqual(self.client.call("sealStream", wire.StreamInfo("scope", "none")), (0, b"\x08\x02"))

    def test_too_large(self) -> None:
        """A call over the limit is reset before more of it is kept."""
        stream = self.client.h2.get_next_available_stream_id()
        self.client.h2.send_headers(
            stream, [(":method", "POST"), (":scheme", "http"), (":path", "/x"), (":authority", "x")]
        )
        for _ in range(100):
            self.client.h2.send_data(stream, bytes(16_000))
            self.client.send()
            if stream in self.client.answers:
                break
        self.assertEqual(self.client.answers[stream], (-1, b""))
        self.assertLess(self.client.peer.protocol.codec.buffered, 100)

    def test_not_http2(self) -> None:
        """Who speaks something else is cut off."""
        peer = self.rig.connect()
        peer.ask(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100)
        self.assertTrue(peer.closed)

    def test_lists(self) -> None:
        """Lists are in the order of creation, and go on until a page is empty."""
        self.furnish()
        names = [f"{number:05}" for number in range(2500, 0, -1)]
        for name in names:
            self.client.ask(
                "createStream", config(1, "odd" if int(name) % 2 else "even", stream=wire.StreamInfo("scope", name))
            )
            if int(name) % 50 == 0:
                self.client.send()
        self.client.send()
        found: list[str] = []
        token = wire.Token()
        while True:
            page = protobuf.decode(
                wire.Streams,
                self.client.call("listStreamsInScope", wire.StreamsRequest(wire.ScopeInfo("scope"), token))[1],
            )
            if not page.streams:
                break
            found += [each.stream for each in page.streams]
            token = page.token
        self.assertEqual(found, ["stream", *names])
        request = wire.TaggedStreamsRequest(wire.ScopeInfo("scope"), "odd", wire.Token())
        tagged = protobuf.decode(wire.Streams, self.client.call("listStreamsInScopeForTag", request)[1])
        self.assertEqual([each.stream for each in tagged.streams], names[1::2][:1000])

    def test_restart(self) -> None:
        """All of it is there after a restart."""
        self.furnish()
        asked = [
            ("getStreamConfiguration", _STREAM),
            ("getCurrentSegments", _STREAM),
            ("getSegments", wire.GetSegments(_STREAM)),
        ]
        before = [self.client.call(*each) for each in asked]
        self.restart()
        self.assertEqual([self.client.call(*each) for each in asked], before)

    def test_disk_full(self) -> None:
        """Without room nothing is made, and what was there is as it was."""
        self.furnish()
        self.rig.disk.full = True
        other = config(stream=wire.StreamInfo("scope", "other"))
        self.assertEqual(self.client.call("createStream", other)[0], Code.UNAVAILABLE)
        self.rig.disk.full = False
        self.rig.advance(2)
        self.assertEqual(self.client.status("checkStreamExists", other.stream), 0)
        self.assertEqual(self.client.status("checkStreamExists", _STREAM), 1)
        self.assertEqual(self.client.status("createStream", other), 0)

    def test_advertise(self) -> None:
        """What clients are told is what was set; only HOST:PORT can be."""
        self.settings = configure({"advertise": "pravega.example:4711"})
        self.restart()
        answer = self.client.call("getURI", wire.SegmentId(_STREAM))[1]
        self.assertEqual(protobuf.decode(wire.NodeUri, answer), wire.NodeUri("pravega.example", 4711))
        for bad in ("host", "host:", ":1", "host:0", "host:65536", "host:x"):
            self.assertRaises(ConfigError, configure, {"advertise": bad})


class RightTests(Case):
    """Rules of access hold for every call."""

    def put(self, *rules: Any) -> None:
        self.rig.core.access.replace(rules, 0.0)

    def test_rights(self) -> None:
        """Without its right a call is refused and does nothing; with it, it is done."""
        new = config(stream=wire.StreamInfo("scope", "new"))
        begin = wire.CreateTxn(_STREAM, 1000)
        for method, message, right, topics in (
            ("createScope", wire.ScopeInfo("another"), "create", ("another/",)),
            ("createStream", new, "create", ("scope/new/*",)),
            ("updateStream", config(2, "tag"), "admin", ("scope/stream/*",)),
            ("truncateStream", wire.StreamCut(_STREAM), "admin", ("scope/stream/*",)),
            ("createTransaction", begin, "write", ("scope/stream/*",)),
            ("sealStream", _STREAM, "admin", ("scope/stream/*",)),
        ):
            self.setUp()
            self.furnish()
            before = self.rig.store.commits
            seen = rule("read", topics=("scope/*",))
            self.put(seen)
            self.assertEqual(self.client.call(method, message)[0], Code.PERMISSION_DENIED, method)
            self.assertEqual(self.rig.store.commits, before, method)
            self.put(seen, rule(right, topics=topics))
            self.assertEqual(self.client.call(method, message)[0], Code.OK, method)
            self.assertGreater(self.rig.store.commits, before - 1, method)
            self.rig.close()

    def test_secret(self) -> None:
        """A scope or stream that a peer has no right on is not there."""
        self.furnish()
        self.put(NOBODY)
        self.assertEqual(self.client.call("listScopes", wire.ScopesRequest())[1], b"\x12\x00")
        self.assertEqual(self.client.status("checkStreamExists", _STREAM), 0)
        self.assertEqual(self.client.call("getCurrentSegments", _STREAM)[0], Code.NOT_FOUND)
        self.assertEqual(self.client.status("deleteStream", _STREAM), 2)


class TransactionTests(Case):
    """Transactions, by the clock."""

    settings = ControllerSettings(lease_seconds_max=100, transaction_seconds_max=1e9, transactions_max=3)

    def setUp(self) -> None:
        super().setUp()
        self.furnish()

    def begin(self, lease: int = 10_000) -> wire.TxnRequest:
        code, answer = self.client.call("createTransaction", wire.CreateTxn(_STREAM, lease))
        self.assertEqual(code, Code.OK)
        txn = protobuf.decode(wire.TxnCreated, answer).txn
        self.assertTrue(0 <= txn.high < 1 << 32 and 0 <= txn.low < 1 << 63)
        return wire.TxnRequest(_STREAM, txn)

    def write(self, request: wire.TxnRequest) -> None:
        """An event in each part of a transaction."""
        for segment in self.rig.store.hidden_segments():
            if segment.name.endswith(request.txn.high.to_bytes(8).hex() + request.txn.low.to_bytes(8).hex()):
                self.rig.store.append(segment, Batch.single(b"event"))
        self.rig.run()

    def count(self) -> list[int]:
        """The events of each segment."""
        return [self.rig.store.find(f"scope/stream/{number}.#epoch.0").number for number in range(2)]

    def test_lease(self) -> None:
        """One whose lease ends is aborted, unless it is pinged; after a restart it has a whole one."""
        request, pinged = self.begin(), self.begin()
        self.write(request)
        for _ in range(3):
            self.rig.advance(4)
            self.assertEqual(
                self.client.status("pingTransaction", wire.PingTxn(_STREAM, pinged.txn, 10_000)), PingStatus.OK
            )
        self.assertEqual(self.client.status("checkTransactionState", request), TxnState.ABORTED)
        self.assertEqual(self.client.status("commitTransaction", request), 1)
        self.restart()
        self.rig.advance(9)
        self.assertEqual(self.client.status("checkTransactionState", pinged), TxnState.OPEN)
        self.assertEqual(self.client.status("checkTransactionState", request), TxnState.ABORTED)
        self.rig.advance(2)
        self.assertEqual(self.client.status("checkTransactionState", pinged), TxnState.ABORTED)
        self.assertEqual((self.rig.store.hidden_segments(), self.count()), ([], [0, 0]))

    def test_ends(self) -> None:
        """A commit, and an abort, said twice are done once; the other one fails then."""
        for method, state in (("commitTransaction", TxnState.COMMITTED), ("abortTransaction", TxnState.ABORTED)):
            request = self.begin()
            self.write(request)
            for _ in range(2):
                self.assertEqual(self.client.status(method, request), 0)
            self.assertEqual(self.client.status("checkTransactionState", request), state)
            other = "abortTransaction" if method == "commitTransaction" else "commitTransaction"
            self.assertEqual(self.client.status(other, request), 1)
        self.assertEqual(self.count(), [1, 1])

    def test_limits(self) -> None:
        """Leases and open transactions have their limits."""
        for lease in (0, -1, 100_001):
            self.assertEqual(
                self.client.call("createTransaction", wire.CreateTxn(_STREAM, lease))[0], Code.INVALID_ARGUMENT
            )
        request = self.begin()
        ping = wire.PingTxn(_STREAM, request.txn, 100_001)
        self.assertEqual(self.client.status("pingTransaction", ping), PingStatus.LEASE_TOO_LARGE)
        self.begin(), self.begin()
        self.assertEqual(
            self.client.call("createTransaction", wire.CreateTxn(_STREAM, 1000))[0], Code.RESOURCE_EXHAUSTED
        )
        unknown = wire.TxnRequest(_STREAM, wire.TxnId(1, 2))
        self.assertEqual(self.client.status("commitTransaction", unknown), 3)
        self.assertEqual(self.client.status("checkTransactionState", unknown), TxnState.UNKNOWN)

    def test_sealed(self) -> None:
        """A stream that is sealed takes no transaction: those that are open are aborted."""
        request = self.begin()
        self.write(request)
        self.assertEqual(self.client.status("sealStream", _STREAM), 0)
        self.assertEqual(self.client.status("checkTransactionState", request), TxnState.ABORTED)
        self.assertEqual(self.client.status("deleteStream", _STREAM), 0)
        self.assertEqual(self.rig.store.names(), ["_pravega/controller"])

    def test_full(self) -> None:
        """A commit for which there is no room fails, and can be done later."""
        request = self.begin()
        self.write(request)
        self.rig.disk.full = True
        self.assertEqual(self.client.call("commitTransaction", request)[0], Code.UNAVAILABLE)
        self.rig.disk.full = False
        self.rig.advance(2)
        self.assertEqual(self.client.status("checkTransactionState", request), TxnState.OPEN)
        self.assertEqual(self.client.status("commitTransaction", request), 0)
        self.assertEqual(self.count(), [1, 1])
