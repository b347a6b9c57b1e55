"""The least a QUIC server in Python can do: aioquic's own asyncio server, which receives and counts.

It is what the QUIC protocols are compared with: all it spends is aioquic's and asyncio's. A stream that has ended is
answered with the number of its bytes (8, big endian); with ``--answer-every N`` also each N bytes with ``--answer``.

    python -m benchmarks.quic_sink --port 4849 --certificate quic-certificate.pem --key quic-key.pem
"""

from __future__ import annotations

import argparse
import asyncio
from functools import partial
from typing import Any

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived


class Sink(QuicConnectionProtocol):
    """One connection."""

    def __init__(self, *arguments: Any, every: int, answer: bytes, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._every = every
        self._answer = answer
        self._received: dict[int, int] = {}

    def quic_event_received(self, event: QuicEvent) -> None:
        """Count."""
        if not isinstance(event, StreamDataReceived):
            return
        before = self._received.get(event.stream_id, 0)
        received = self._received[event.stream_id] = before + len(event.data)
        if self._every:
            answers = received // self._every - before // self._every
            if answers:
                self._quic.send_stream_data(event.stream_id, self._answer * answers)
        if event.end_stream:
            del self._received[event.stream_id]
            self._quic.send_stream_data(event.stream_id, received.to_bytes(8, "big"), end_stream=True)


async def run(options: argparse.Namespace) -> None:
    """Serve until it is stopped."""
    configuration = QuicConfiguration(is_client=False, alpn_protocols=[options.alpn])
    configuration.load_cert_chain(options.certificate, options.key)
    create = partial(Sink, every=options.answer_every, answer=bytes.fromhex(options.answer))
    await serve("127.0.0.1", options.port, configuration=configuration, create_protocol=create)
    print("ready", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--certificate", required=True, help="PEM file with the certificate")
    parser.add_argument("--key", required=True, help="PEM file with its key")
    parser.add_argument("--alpn", default="fujin")
    parser.add_argument("--answer-every", type=int, default=0, help="bytes of a stream for each answer; 0: none")
    parser.add_argument("--answer", default="00", help="the answer, in hexadecimal")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
