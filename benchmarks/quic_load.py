"""Load for a QUIC server: batched frames on one stream, handshakes, frames one at a time.

Each prints one line of JSON. A frame is given as bytes, with what opens the stream before the first one and what ends
it, so that the same program loads the bare sink and a real protocol:

    python -m benchmarks.quic_load --port 4849 --certificate quic-certificate.pem stream --frame 61x100 --count 100000
    python -m benchmarks.quic_load --port 4849 --certificate quic-certificate.pem handshakes --seconds 5
    python -m benchmarks.quic_load --port 4849 --certificate quic-certificate.pem latency --frame 61x100 --reply-bytes 1
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from twisted.internet import task
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure
from zope.interface import implementer

from streamd.quic.client import QuicClientEndpoint, Trust
from streamd.quic.connection import Connection
from streamd.quic.settings import QuicSettings


def pattern(text: str) -> bytes:
    """Bytes in hexadecimal; parts are joined with +, ``61x100`` is 100 times 61."""
    made = b""
    for part in filter(None, text.split("+")):
        value, _, times = part.partition("x")
        made += bytes.fromhex(value) * int(times or 1)
    return made


@implementer(IHalfCloseableProtocol)
class Stream(Protocol):
    """One stream: writes batches as it may, and waits for a number of reply bytes or for the end."""

    transport: Any

    def __init__(self, options: argparse.Namespace, batches: int) -> None:
        self._options = options
        self._batch = options.frame * options.batch
        self._batches = batches
        self._reply_bytes = options.reply_bytes * options.batch * batches
        self._received = 0
        self._waiting = options.reply_bytes
        self.done: Deferred[None] = Deferred()
        self.round: Deferred[None] | None = None

    def connectionMade(self) -> None:
        self.transport.write(self._options.begin)
        if self._batches:
            self.transport.registerProducer(self, False)

    def resumeProducing(self) -> None:
        """There is room for a batch."""
        if self._batches:
            self._batches -= 1
            self.transport.write(self._batch)
        else:
            self.transport.unregisterProducer()
            if not self._reply_bytes:
                self.transport.loseWriteConnection()

    def stopProducing(self) -> None:
        """The stream is gone; `connectionLost` tells."""

    def one(self) -> Deferred[None]:
        """Send one frame; fires with its reply."""
        self.round = Deferred()
        self._waiting = self._received + self._options.reply_bytes
        self.transport.write(self._options.frame)
        return self.round

    def dataReceived(self, data: bytes) -> None:
        self._received += len(data)
        if self.round is not None and self._received >= self._waiting:
            answered, self.round = self.round, None
            answered.callback(None)
        if self._reply_bytes and self._received >= self._reply_bytes:
            self._finish(None)

    def readConnectionLost(self) -> None:
        self._finish(None)

    def writeConnectionLost(self) -> None:
        """All that was sent has arrived."""

    def connectionLost(self, reason: Any = None) -> None:
        self._finish(reason)

    def _finish(self, reason: Failure | None) -> None:
        if not self.done.called:
            self.done.callback(None) if reason is None else self.done.errback(reason)


class Load:
    """The three kinds of load."""

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
            settings=QuicSettings(alpn=(options.alpn,), stream_send_bytes_max=1 << 20),
        )

    def dial(self) -> Deferred[Connection]:
        """A new connection."""
        return self._endpoint.dial()

    async def stream(self) -> dict[str, float]:
        """Batched frames on one stream: frames a second, until all are answered or counted."""
        options = self._options
        connection = await self.dial()
        stream = Stream(options, options.count // options.batch)
        began = self._reactor.seconds()
        connection.openStream(stream)
        await stream.done
        took = self._reactor.seconds() - began
        connection.close()
        return {
            "frames_per_second": options.count / took,
            "bytes_per_second": options.count * len(options.frame) / took,
        }

    async def handshakes(self) -> dict[str, float]:
        """New connections, some at a time: how many a second."""
        end = self._reactor.seconds() + self._options.seconds
        counts = [0]

        async def again() -> None:
            while self._reactor.seconds() < end:
                connection = await self.dial()
                connection.close()
                counts[0] += 1

        began = self._reactor.seconds()
        for each in [Deferred.fromCoroutine(again()) for _ in range(self._options.parallel)]:
            await each
        return {"handshakes_per_second": counts[0] / (self._reactor.seconds() - began)}

    async def latency(self) -> dict[str, float]:
        """Frames one at a time, each sent when the one before is answered: milliseconds."""
        connection = await self.dial()
        stream = Stream(self._options, 0)
        stream.done.addErrback(lambda _: None)
        connection.openStream(stream)
        took = []
        for _ in range(self._options.count):
            began = self._reactor.seconds()
            await stream.one()
            took.append(self._reactor.seconds() - began)
        connection.close()
        took.sort()
        return {f"p{at}_ms": 1000 * took[min(len(took) - 1, len(took) * at // 100)] for at in (50, 99)}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--certificate", required=True, help="PEM file to trust; a key in it is not used")
    parser.add_argument("--alpn", default="fujin")
    parser.add_argument("kind", choices=("stream", "handshakes", "latency"))
    parser.add_argument("--begin", type=pattern, default=b"", help="what a stream begins with")
    parser.add_argument("--frame", type=pattern, default=b"a" * 100)
    parser.add_argument("--batch", type=int, default=100, help="frames written at once")
    parser.add_argument("--count", type=int, default=100_000, help="frames in all")
    parser.add_argument("--reply-bytes", type=int, default=0, help="bytes of reply to a frame; 0: the end is answered")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--parallel", type=int, default=8, help="handshakes at a time")
    options = parser.parse_args()

    def run(reactor: Any) -> Deferred[None]:
        return Deferred.fromCoroutine(getattr(Load(reactor, options), options.kind)()).addCallback(
            lambda result: print(json.dumps(result))
        )

    task.react(run)


if __name__ == "__main__":
    main()
