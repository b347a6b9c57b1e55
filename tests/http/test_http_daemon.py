"""The site of a real daemon, on a real socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from twisted.trial.unittest import SynchronousTestCase

from tests.rigs.daemon import DEADLINE_SECONDS, Daemon
from tests.rigs.protocols.sockets import memory_bytes, receive_all
from tests.rigs.sesp_client import Sesp


class DaemonTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).resolve()
        self.daemon = Daemon(str(self.directory))
        self.addCleanup(self.daemon.close)
        self.daemon.start()

    def connection(self) -> http.client.HTTPConnection:
        made = http.client.HTTPConnection("localhost", self.daemon.port("http"), timeout=DEADLINE_SECONDS)
        self.addCleanup(made.close)
        return made

    def ask(self, path: str) -> tuple[int, str]:
        connection = self.connection()
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()

    def events(self, query: str = "") -> Any:
        """A stream of events, one at a time."""
        connection = self.connection()
        connection.request("GET", f"/events{query}")
        response = connection.getresponse()
        while line := response.readline():
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def test_idle_connections(self) -> None:
        """Hundreds of connections that ask nothing, or half of something, close it to nobody."""
        for number in range(200):
            idle = socket.create_connection(("127.0.0.1", self.daemon.port("http")), DEADLINE_SECONDS)
            self.addCleanup(idle.close)
            if number % 2:
                idle.sendall(b"GET /heal")
            if number % 20 == 0:
                for path in ("/healthz", "/readyz", "/metrics"):
                    self.assertEqual(self.ask(path)[0], 200, path)

    def test_all(self) -> None:
        """What is published shows everywhere: in the figures, on the overview, on the segment's page."""
        self.assertEqual(self.ask("/healthz"), (200, "alive\n"))
        self.assertEqual(self.ask("/readyz"), (200, "ready\n"))
        with Sesp(self.daemon) as sesp:
            sesp.ask("#a")
            sesp.ask("@a")
            sesp.ask(">hello")
        _, text = self.ask("/metrics")
        samples = {
            (sample.name, sample.labels.get("protocol")): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        self.assertEqual(samples["streamd_appended_records_total", "sesp"], 1)
        self.assertEqual(samples["streamd_appended_records_total", "smq"], 0)
        self.assertEqual(samples["streamd_compactor_running", None], 1)
        self.assertEqual(samples["streamd_ready", None], 1)
        overview = next(self.events())
        self.assertEqual([row["name"] for row in overview["segments"]["rows"]], ["a"])
        self.assertEqual(next(self.events("?segment=a"))["records"][0]["shown"], "hello")

    def test_stop(self) -> None:
        """Open pages and idle connections do not hold the daemon up, and a page's stream ends in order."""
        stream = self.events()
        next(stream)
        idle = self.connection()
        idle.connect()
        self.assertEqual(self.daemon.terminate(), 0, self.daemon.output)
        self.assertEqual([event for event in stream if "state" not in event], [])

    def test_flood(self) -> None:
        """Requests whose answers nobody takes, and a body that nobody wants, fill no memory and hold nobody up."""
        before = memory_bytes(self.daemon.pid)
        for _ in range(10):
            greedy = self.daemon.connect("http")
            self.addCleanup(greedy.close)
            with contextlib.suppress(OSError):  # it is closed on
                for _ in range(100):
                    greedy.sendall(b"GET /streamd.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
        sender = self.daemon.connect("http")
        self.addCleanup(sender.close)
        sender.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n")
        for _ in range(100):
            sender.sendall(bytes(1_000_000))
        self.assertIn(b"405 Method Not Allowed", sender.recv(1000))
        self.assertEqual(self.ask("/healthz"), (200, "alive\n"))
        self.assertLess(memory_bytes(self.daemon.pid) - before, 20 << 20)

    def test_crowd(self) -> None:
        """More connections than allowed are closed at once; the protocols do not notice."""
        crowd = [self.daemon.connect("http") for _ in range(80)]
        for each in crowd:
            self.addCleanup(each.close)
        with Sesp(self.daemon) as sesp:
            sesp.ask("#a")
        closed = sum(_is_closed(each) for each in crowd)
        self.assertEqual(closed, 80 - 64)
        for each in crowd:
            each.close()
        # All have been answered and closed, so somebody else gets in.
        self.assertEqual(self.ask("/readyz")[0], 200)


def _is_closed(connection: socket.socket) -> bool:
    """Whether the daemon has closed it: asked something, it does not answer."""
    try:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return b"alive" not in receive_all(connection)
    except OSError:
        return True
