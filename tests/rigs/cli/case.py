"""A test case with a daemon, and streamctl pointed at it."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from tests.rigs.cli.run import Ended, ctl, environment
from tests.rigs.daemon import Daemon


class DaemonCase(SynchronousTestCase):
    """A daemon of its own for each test."""

    def setUp(self) -> None:
        self.daemon = Daemon(self.path())
        self.addCleanup(self.daemon.close)
        self.daemon.start()

    @property
    def data(self) -> str:
        """The files of the store."""
        return str(self.daemon.data_dir)

    def run_ctl(self, *arguments: str, given: bytes = b"") -> Ended:
        """Run a command, whatever comes of it."""
        return ctl(*arguments, given=given, env=environment(self.daemon))

    def ctl(self, *arguments: str, given: bytes = b"") -> Ended:
        """Run a command that must succeed."""
        ended = self.run_ctl(*arguments, given=given)
        self.assertEqual((ended.status, ended.err), (0, ""), arguments)
        return ended

    def refused(self, status: int, text: str, *arguments: str, given: bytes = b"") -> None:
        """Run a command that must fail, with one line that says this."""
        ended = self.run_ctl(*arguments, given=given)
        self.assertEqual(ended.status, status, ended.err)
        self.assertTrue(ended.err.startswith("streamctl: "), ended.err)
        self.assertEqual(ended.err.count("\n"), 1, ended.err)
        self.assertIn(text, ended.err)

    def publish(self, topic: str, *messages: bytes) -> None:
        """Messages, each a line, to a topic that is made for them."""
        self.ctl("publish", topic, "--create", given=b"".join(message + b"\n" for message in messages))

    def path(self) -> str:
        """A path where nothing is."""
        path: str = os.path.abspath(self.mktemp())
        return path
