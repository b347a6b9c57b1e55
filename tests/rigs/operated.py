"""A real daemon as its operator meets it."""

from __future__ import annotations

import socket
from io import BufferedRWPair
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.rigs.daemon import Daemon


class DaemonCase(SynchronousTestCase):
    """Daemons in a directory of the test's own, none of which outlives it."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).resolve()
        self.directory.mkdir()

    def daemon(self, *options: str, **more: object) -> Daemon:
        made = Daemon(str(self.directory), *options, **more)  # type: ignore[arg-type]
        self.addCleanup(made.close)
        return made

    def refused(self, daemon: Daemon) -> str:
        """It ends with status 1 and one line on standard error, which is returned; nowhere is a traceback."""
        self.assertEqual(daemon.spawn().wait(), 1, daemon.output)
        self.assertNotIn("Traceback", daemon.output)
        self.assertEqual(len(daemon.errors), 1, daemon.output)
        return daemon.errors[0]

    def write(self, name: str, text: str) -> str:
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def ask(self, stream: BufferedRWPair[Any, Any]) -> None:
        """One request, and its answer."""
        stream.write(b"@no such topic\n")
        stream.flush()
        self.assertEqual(stream.readline(), b"-NoSuchTopicExists\n")

    def assert_answers(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as stream:
            self.ask(stream)
