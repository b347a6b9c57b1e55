"""Exactly once, for real: a Spark query into a daemon, and SIGKILL for either of them wherever it hurts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.rigs.daemon import Daemon
from tests.rigs.drivers.case import environment
from tests.rigs.drivers.cluster import free_port
from tests.rigs.drivers.sink_driver import TOPIC
from tests.rigs.spark.sink.failing import COMMIT, DAEMON, DRIVER, PLACES, Hooks
from tests.rigs.spark.sink.written import written

ROWS = 20
DEADLINE_SECONDS = 240


class KillTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).resolve()
        self.hooks = Hooks(self.directory / "hooks")
        self.source = self.directory / "source"
        for each in (self.hooks.directory, self.source):
            each.mkdir(parents=True)
        self.lines = [f"{file}:{row}" for file in range(len(PLACES) + 1) for row in range(ROWS)]
        for file in range(len(PLACES) + 1):
            lines = [line for line in self.lines if line.startswith(f"{file}:")]
            (self.source / f"{file}.txt").write_text("\n".join(lines))
        endpoint = f"tcp:{free_port()}:interface=127.0.0.1"
        self.daemon = Daemon(str(self.directory / "daemon"), "--pravega", endpoint)
        self.addCleanup(self.daemon.close)
        self.start_daemon()

    def start_daemon(self) -> None:
        self.daemon.start()
        self.server = f"127.0.0.1:{self.daemon.port('pravega')}"
        (self.hooks.directory / DAEMON).write_text(str(self.daemon.pid))

    def start_driver(self) -> subprocess.Popen[bytes]:
        """A driver that leads a group of its own, so that nothing of it outlives a test that fails."""
        places = map(str, (self.directory / "checkpoint", self.hooks.directory))
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.rigs.drivers.sink_driver", str(self.source), self.server, *places],
            cwd=self.directory,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=(self.directory / "driver.log").open("ab"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

        def end() -> None:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

        self.addCleanup(end)
        return process

    def said(self) -> str:
        return (self.directory / "driver.log").read_text(errors="replace")[-5000:]

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        self.assertEqual(process.wait(DEADLINE_SECONDS), 0, self.said())
        self.assertEqual(self.hooks.left(), [])
        self.assertEqual(sorted(map(bytes.decode, written(self.server, TOPIC))), sorted(self.lines))
        self.assertEqual(self.daemon.terminate(), 0, self.daemon.output)

    def test_driver(self) -> None:
        """The driver is killed before, in and after a commit, and started again each time."""
        for batch, place in enumerate(COMMIT):
            self.hooks.put(batch, place, DRIVER)
        for _ in COMMIT:
            self.assertEqual(self.start_driver().wait(DEADLINE_SECONDS), -signal.SIGKILL, self.said())
        self.assertEqual(self.hooks.left(), [], self.said())
        self.finish(self.start_driver())

    def test_daemon(self) -> None:
        """The daemon is killed in a task, and at the same places; it is started again, and the query goes on."""
        for batch, place in enumerate(PLACES):
            self.hooks.put(batch, place, DAEMON)
        process = self.start_driver()
        for _ in PLACES:
            self.assertEqual(self.daemon.wait(DEADLINE_SECONDS), -signal.SIGKILL, self.said())
            self.start_daemon()
        self.finish(process)
