"""Load for a QUIC server: batched writes on one stream, a subscriber, writes one at a time, handshakes.

What is written is Fujin. Where the server is the bare sink, which reads nothing of it, the end of the stream is
answered in place of each write. Prints one line of JSON, the fields of `load.Result`.

    python -m benchmarks.quic_load --port 4848 --certificate quic-ca.pem write --messages 100000
    python -m benchmarks.quic_load --port 4849 --certificate quic-ca.pem write --messages 100000 --sink
    python -m benchmarks.quic_load --port 4848 --certificate quic-ca.pem subscribe --messages 100000
    python -m benchmarks.quic_load --port 4848 --certificate quic-ca.pem single --seconds 5
    python -m benchmarks.quic_load --port 4848 --certificate quic-ca.pem handshakes --seconds 5
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from twisted.internet import task
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure
from zope.interface import implementer

from streamd.batch import Batch
from streamd.quic.client import QuicClientEndpoint, Trust
from streamd.quic.connection import Connection
from streamd.quic.settings import QuicSettings
from streamd.wire import fujin_replies as replies
from streamd.wire.client import fujin as fujin_client

_TOPIC = "bench"
_ID_BYTES = 4
# Answers and messages are compared in pieces of this many: a message is 105 bytes, an answer 6.
_COMPARED = 1_000


class LoadFailed(Exception):
    """The server did something else than it should."""


class Expected:
    """What has to come: `first` once, then `again` so many times."""

    def __init__(self, first: bytes, again: bytes, times: int) -> None:
        self._again = again
        self._part = first
        self._at = 0
        self.left_bytes = len(first) + len(again) * times

    def check(self, data: bytes) -> None:
        """This came; LoadFailed where it should not have."""
        self.left_bytes -= len(data)
        if self.left_bytes < 0:
            raise LoadFailed(f"{-self.left_bytes} bytes more came than should")
        begin = 0
        while begin < len(data):
            if self._at == len(self._part):
                self._part, self._at = self._again, 0
            size = min(len(data) - begin, len(self._part) - self._at)
            if data[begin : begin + size] != self._part[self._at : self._at + size]:
                raise LoadFailed(f"{data[begin : begin + 40]!r} came, not {self._part[self._at : self._at + 40]!r}")
            begin += size
            self._at += size


@implementer(IHalfCloseableProtocol)
class Stream(Protocol):
    """One stream: writes batches as it may, and is done when all that is expected has come."""

    transport: Any

    def __init__(self, begin: bytes, batch: bytes, batches: int, expected: Expected, *, ends: bool = False) -> None:
        self._begin = begin
        self._batch = batch
        self._batches = batches
        self._expected = expected
        self._ends = ends
        self.done: Deferred[None] = Deferred()

    def connectionMade(self) -> None:
        self.transport.write(self._begin)
        if self._batches:
            self.transport.registerProducer(self, False)

    def resumeProducing(self) -> None:
        """There is room for a batch."""
        if self._batches:
            self._batches -= 1
            self.transport.write(self._batch)
        else:
            self.transport.unregisterProducer()
            if self._ends:
                self.transport.loseWriteConnection()

    def stopProducing(self) -> None:
        """The stream is gone; `connectionLost` tells."""

    def dataReceived(self, data: bytes) -> None:
        try:
            self._expected.check(data)
        except LoadFailed:
            self._finish(Failure())
        else:
            if not self._expected.left_bytes:
                self._finish(None)

    def readConnectionLost(self) -> None:
        self.connectionLost(Failure(LoadFailed("the server has ended the stream")))

    def writeConnectionLost(self) -> None:
        """All that was sent has arrived."""

    def connectionLost(self, reason: Any = None) -> None:
        self._finish(reason)

    def _finish(self, reason: Failure | None) -> None:
        if not self.done.called:
            self.done.callback(None) if reason is None else self.done.errback(reason)


class One(Protocol):
    """A stream that writes one message when it is told to."""

    transport: Any

    def __init__(self, message: bytes, answer: bytes) -> None:
        self._message = message
        self._answer = answer
        self._received = b""
        self._waiting: Deferred[None] = Deferred()

    def connectionMade(self) -> None:
        self.transport.write(fujin_client.connect_writer(0))

    def write(self) -> Deferred[None]:
        """Write one; fires when it is answered."""
        self._waiting = Deferred()
        self.transport.write(self._message)
        return self._waiting

    def dataReceived(self, data: bytes) -> None:
        self._received += data
        if len(self._received) >= len(self._answer):
            received, self._received = self._received, b""
            if received == self._answer:
                self._waiting.callback(None)
            else:
                self._waiting.errback(LoadFailed(f"{received!r} came, not {self._answer!r}"))

    def connectionLost(self, reason: Any = None) -> None:
        if not self._waiting.called:
            self._waiting.errback(reason)


class Pong(Protocol):
    """Answers a ping of the daemon's, on the stream that came with it."""

    transport: Any

    def connectionMade(self) -> None:
        self.transport.write(fujin_client.PONG)
        self.transport.loseConnection()


class Load:
    """The kinds of load. Each gives the fields of a `load.Result`."""

    def __init__(self, reactor: Any, options: argparse.Namespace) -> None:
        self._reactor = reactor
        self._options = options
        with open(options.certificate, "rb") as file:
            trusted = b"".join(file.read().partition(b"-----BEGIN CERTIFICATE")[1:])
        self._endpoint = QuicClientEndpoint(
            reactor,
            "127.0.0.1",
            options.port,
            trust=Trust(trusted),
            settings=QuicSettings(
                alpn=(options.alpn,), stream_send_bytes_max=1 << 20, datagram_bytes_max=options.datagram_bytes
            ),
        )
        self._pongs = Factory.forProtocol(Pong)
        self._pongs.noisy = False

    def _dial(self) -> Deferred[Connection]:
        return self._endpoint.dial(self._pongs)

    async def write(self) -> dict[str, float]:
        """Batched writes on one stream, until all are answered."""
        options = self._options
        batches = -(-options.messages // options.batch)
        batch = fujin_client.writes(0, _TOPIC, [bytes(options.size)] * options.batch)
        ids = b"".join([id.to_bytes(_ID_BYTES, "big") for id in range(options.batch)])
        begin = fujin_client.connect_writer(0)
        expected = Expected(b"", replies.answers(replies.Reply.WRITTEN, ids), batches)
        if options.sink:
            expected = Expected((len(begin) + len(batch) * batches).to_bytes(8, "big"), b"", 0)
        stream = Stream(begin, batch, batches, expected, ends=options.sink)
        return await self._timed(stream, batches * options.batch)

    async def subscribe(self) -> dict[str, float]:
        """Messages that are there already, pushed to one subscriber, until all have come."""
        options = self._options
        messages = replies.messages(Batch.of([bytes(options.size)] * _COMPARED), None)
        times, rest = divmod(options.messages, _COMPARED)
        if rest:
            raise LoadFailed(f"a subscriber counts in {_COMPARED}s")
        expected = Expected(replies.reader_connected(True, 0), messages, times)
        begin = fujin_client.connect_reader(_TOPIC, consumer=False)
        return await self._timed(Stream(begin, b"", 0, expected), options.messages)

    async def _timed(self, stream: Stream, messages: int) -> dict[str, float]:
        connection = await self._dial()
        with _clock() as result:
            connection.openStream(stream)
            await stream.done
            result["messages"] = messages
        connection.close()
        return result

    async def single(self) -> dict[str, float]:
        """Writes one at a time, each sent when the one before is answered."""
        connection = await self._dial()
        message = fujin_client.write(7, _TOPIC, bytes(self._options.size))
        stream = One(message, replies.answers(replies.Reply.WRITTEN, (7).to_bytes(_ID_BYTES, "big")))
        connection.openStream(stream)
        # The first one makes the topic.
        await stream.write()
        took = []
        with _clock() as result:
            end = time.perf_counter() + self._options.seconds
            while (began := time.perf_counter()) < end:
                await stream.write()
                took.append(time.perf_counter() - began)
            result["messages"] = len(took)
        connection.close()
        took.sort()
        result.update({f"p{at}_us": 1e6 * took[len(took) * at // 100] for at in (50, 99)})
        result["max_us"] = 1e6 * took[-1]
        return result

    async def handshakes(self) -> dict[str, float]:
        """New connections, some at a time."""
        counts = [0]
        with _clock() as result:
            end = time.perf_counter() + self._options.seconds

            async def again() -> None:
                while time.perf_counter() < end:
                    connection = await self._dial()
                    connection.close()
                    counts[0] += 1

            for each in [Deferred.fromCoroutine(again()) for _ in range(self._options.parallel)]:
                await each
            result["messages"] = counts[0]
        return result


@contextmanager
def _clock() -> Iterator[dict[str, float]]:
    """The result of what goes on in here: who knows it adds the number of messages."""
    result: dict[str, float] = {}
    began, used = time.perf_counter(), time.process_time()
    yield result
    result["seconds"] = time.perf_counter() - began
    result["cpu_seconds"] = time.process_time() - used
    result["rate"] = result["messages"] / result["seconds"]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--certificate", required=True, help="PEM file to trust; a key in it is not used")
    parser.add_argument("--alpn", default="fujin")
    parser.add_argument("kind", choices=("write", "subscribe", "single", "handshakes"))
    parser.add_argument("--size", type=int, default=100, help="bytes of a message (%(default)s)")
    parser.add_argument("--messages", type=int, default=100_000, help="messages in all (%(default)s)")
    parser.add_argument("--batch", type=int, default=100, help="messages written at once (%(default)s)")
    parser.add_argument("--sink", action="store_true", help="the end of the stream is answered, and nothing else")
    parser.add_argument("--datagram-bytes", type=int, default=1_200, help="largest datagram sent (%(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--parallel", type=int, default=8, help="handshakes at a time (%(default)s)")
    options = parser.parse_args()

    async def run(reactor: Any) -> None:
        try:
            print(json.dumps(await getattr(Load(reactor, options), options.kind)()))
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            raise SystemExit(1)

    task.react(lambda reactor: Deferred.fromCoroutine(run(reactor)))


if __name__ == "__main__":
    main()
