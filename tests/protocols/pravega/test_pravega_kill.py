"""Exactly once, for real: a writer that sends again from its ack level, and a daemon that is killed under it."""

from __future__ import annotations

import os
import socket
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from streamd.wire.pravega.documented import HEADER, Type, message
from tests.rigs.daemon import Daemon
from tests.rigs.wire.pravega import WRITER, block, event, read, setup, text

ROUNDS = 4
EVENTS = 400


class Client:
    """One connection that takes messages apart."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._data = b""

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def message(self) -> tuple[int, bytes]:
        """The next message; ConnectionError where the daemon is gone."""
        while True:
            if len(self._data) >= HEADER.size:
                kind, length = HEADER.unpack_from(self._data)
                if len(self._data) >= HEADER.size + length:
                    payload = self._data[HEADER.size : HEADER.size + length]
                    self._data = self._data[HEADER.size + length :]
                    return kind, payload
            part = self._connection.recv(1 << 20)
            if not part:
                raise ConnectionError("closed")
            self._data += part

    def close(self) -> None:
        self._connection.close()


class KillTests(SynchronousTestCase):
    def test_exactly_once(self) -> None:
        """Killed with writes on their way, again and again: in the end every event is there, once, in order."""
        rng = Random(7)
        with Daemon(os.path.abspath(self.mktemp())) as daemon:
            client = Client(daemon.connect("pravega"))
            client.send(message(Type.CREATE_SEGMENT, text("s")))
            self.assertEqual(client.message()[0], Type.SEGMENT_CREATED)
            client.close()
            events = [event(b"%d:" % number + rng.randbytes(rng.randrange(200))) for number in range(ROUNDS * EVENTS)]
            written = b"".join(events)
            for number in range(ROUNDS):
                last = len(b"".join(events[: (number + 1) * EVENTS]))
                self.write(daemon, events, last, kill_after=rng.randrange(1, 12))
                daemon.start()
            self.write(daemon, events, len(written), kill_after=None)
            self.assertEqual(self.content(daemon, len(written)), written)
            self.assertEqual(daemon.terminate(), 0, daemon.output)

    def write(self, daemon: Daemon, events: list[bytes], last: int, kill_after: int | None) -> None:
        """Go on from the ack level, several blocks at a time, and kill the daemon after some acknowledgements."""
        client = Client(daemon.connect("pravega"))
        client.send(setup("s"))
        kind, payload = client.message()
        self.assertEqual(kind, Type.APPEND_SETUP)
        level = int.from_bytes(payload[-8:], "big")
        at, sent = 0, level
        for data in events:
            if at >= level and at < last:
                client.send(block(at, data))
                sent = at + len(data)
            at += len(data)
        acknowledged, answers = level, 0
        while acknowledged < sent:
            if answers == kill_after:
                daemon.kill()
                kill_after = None
            try:
                kind, payload = client.message()
            except ConnectionError:
                break
            self.assertEqual(kind, Type.DATA_APPENDED)
            self.assertEqual(payload[:16], WRITER)
            acknowledged = int.from_bytes(payload[16:], "big")
            answers += 1
        client.close()
        daemon.close()
        # What was acknowledged is there when it comes back.
        daemon.start()
        client = Client(daemon.connect("pravega"))
        client.send(setup("s"))
        self.assertGreaterEqual(int.from_bytes(client.message()[1][-8:], "big"), acknowledged)
        client.close()

    def content(self, daemon: Daemon, length: int) -> bytes:
        client = Client(daemon.connect("pravega"))
        data = b""
        while len(data) < length:
            client.send(read("s", len(data), 1 << 20))
            _, payload = client.message()
            data += payload[len(text("s")) + 10 :]
        client.close()
        return data
