"""What streamctl says when something is wrong: the cause, and how far it came."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

from twisted.trial.unittest import SynchronousTestCase

from streamd.wire import tools, work
from streamd.wire.fields import to_bytes
from streamd.wire.pravega.documented import KeepAlive, PravegaCodec, Type, message
from tests.rigs.cli.run import Ended, ctl
from tests.rigs.client.peers import address
from tests.rigs.daemon import Daemon

TOPIC = tools.SegmentInfo(1, "t", 0, 0, 0, 0, 0, 0, False)


class FullDisk(ThreadingTCPServer):
    """A daemon whose disk has room for so many requests with messages, and for more when it was asked often enough."""

    daemon_threads = True
    allow_reuse_address = True
    room = 1
    refusals_max = 1 << 30
    refused = 0

    def answer(self, request: object) -> bytes:
        """What a daemon would say."""
        if isinstance(request, KeepAlive):
            return message(Type.KEEP_ALIVE, request.data)
        if isinstance(request, tools.NameSegments):
            return to_bytes(tools.Segments(request.id, (TOPIC,) * len(request.names), 0))
        if isinstance(request, tools.GetLevel):
            return to_bytes(tools.LevelFound(request.id, False, 0))
        assert isinstance(request, work.StoreRecords), request
        if self.room == 0 and self.refused < self.refusals_max:
            self.refused += 1
            return to_bytes(tools.Refusal(request.id, tools.Code.READ_ONLY, 0, 0, "the disk is full"))
        self.room -= bool(request.batch.count)
        return to_bytes(work.RecordsStored(request.id, 0, False))


class _Connection(BaseRequestHandler):
    server: FullDisk

    def handle(self) -> None:
        codec = PravegaCodec(1 << 20)
        while data := self.request.recv(65536):
            for request in codec.receive(data):
                self.request.sendall(self.server.answer(request))


@contextmanager
def full_disk(room: int, refusals_max: int = 1 << 30) -> Iterator[str]:
    """Such a daemon; its address."""
    with FullDisk(("127.0.0.1", 0), _Connection) as server:
        server.room, server.refusals_max = room, refusals_max
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class FullDiskTests(SynchronousTestCase):
    def publish(self, server: str, *options: str) -> Ended:
        lines = b"x" * 700_000 + b"\n" + b"y" * 700_000 + b"\n"
        return ctl("publish", "t", "first", "-", "--server", server, *options, given=lines)

    def test_at_once(self) -> None:
        """A disk that is full is told at once, before anything is sent."""
        with full_disk(0) as server:
            ended = self.publish(server)
        self.assertEqual((ended.status, ended.text), (1, ""))
        self.assertIn("t: the daemon takes no writes now: its disk is full", ended.err)

    def test_in_the_middle(self) -> None:
        """One that fills up meanwhile is told with how many records are stored."""
        with full_disk(1) as server:
            ended = self.publish(server)
        self.assertEqual(ended.status, 1)
        self.assertIn("1 message stored", ended.err)

    def test_wait(self) -> None:
        """Who is told to wait goes on when there is room."""
        with full_disk(0, refusals_max=1) as server:
            ended = self.publish(server, "--wait")
        self.assertEqual((ended.status, ended.text), (0, "t: 3 messages published\n"))
        self.assertIn("waiting for room", ended.err)


class AccessTests(SynchronousTestCase):
    def test_read_only(self) -> None:
        """Who may only read is told which right is missing, and whom it is taken for."""
        directory = os.path.abspath(self.mktemp())
        os.makedirs(directory)
        file = Path(directory) / "streamd.toml"
        data = Path(directory) / "data"
        file.write_text(f'data_dir = "{data}"\n[[access]]\nwho = "anyone"\nallow = ["read"]\ntopics = ["t"]\n')
        allowed = Daemon(directory).start()
        self.addCleanup(allowed.close)
        self.assertEqual(ctl("create", "t", "--server", address(allowed, "pravega")).status, 0)
        allowed.kill()
        daemon = Daemon(directory, "--config", str(file)).start()
        self.addCleanup(daemon.close)
        server = ("--server", address(daemon, "pravega"))
        for command, right in (
            (("publish", "t", "x"), "write"),
            (("seal", "t"), "admin"),
            (("groups", "reset", "t", "g", "--to", "earliest", "--apply"), "admin"),
            (("create", "new"), "create"),
        ):
            ended = ctl(*command, *server)
            self.assertEqual(ended.status, 1, command)
            self.assertIn(f"you are taken for net:127.0.0.1, and no rule allows that to {right}", ended.err)
        self.assertIn("nosuch: there is no such topic", ctl("publish", "nosuch", "x", *server).err)
        ended = ctl("publish", "bell\a", "x", "--create", *server)
        self.assertIn(r"'bell\x07'", ended.err)
