"""The command line, and what makeService makes of it."""

from __future__ import annotations

import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from typing import Any

from twisted.python.usage import UsageError
from twisted.trial.unittest import SynchronousTestCase

from streamd import __version__
from streamd.plugin import ProtocolPlugin, found_protocols
from streamd.tap import BaseOptions, Options, makeService, options_for
from tests.rigs.daemon import CHECKOUT

QUEUE = ProtocolPlugin("queue", "nowhere", "tcp:9:interface=127.0.0.1", "the queue of these tests")


class OptionsCase(SynchronousTestCase):
    """What is printed is kept."""

    def setUp(self) -> None:
        self.printed, self.said = StringIO(), StringIO()
        self.patch(sys, "stdout", self.printed)
        self.patch(sys, "stderr", self.said)

    def parse(self, *arguments: str) -> BaseOptions:
        options = options_for([QUEUE])()
        options.parseOptions(list(arguments))
        return options

    def refused(self, *arguments: str) -> str:
        """The one line with which it ends."""
        ended = self.assertRaises(SystemExit, self.parse, *arguments)
        self.assertEqual(ended.code, 1)
        self.assertEqual(self.said.getvalue().count("\n"), 1)
        return self.said.getvalue()


class OptionsTests(OptionsCase):
    def test_none(self) -> None:
        """Without options the file and the defaults have their say."""
        given = self.parse().overrides()
        self.assertEqual((given.data_dir, given.log, given.store, given.endpoints), (None, {}, {}, {}))

    def test_all(self) -> None:
        """Each option gets to its place; one of a service may come more than once."""
        options = self.parse(
            *("--config", "f", "--data-dir", "d", "--log-format", "json", "--log-level", "warn", "--sync", "never"),
            *("--queue", "tcp:1", "--queue=unix:/s"),
        )
        given = options.overrides()
        self.assertEqual(options["config"], "f")
        self.assertEqual(given.data_dir, "d")
        self.assertEqual(given.log, {"format": "json", "level": "warn"})
        self.assertEqual(given.store, {"sync": "never"})
        self.assertEqual(given.endpoints, {"queue": ["tcp:1", "unix:/s"]})

    def test_two_parses(self) -> None:
        """What one command line gave is not in the next."""
        self.parse("--queue", "tcp:1")
        self.assertEqual(self.parse().overrides().endpoints, {})

    def test_refused(self) -> None:
        """A command line that can't be read ends with one line and status 1, not with a page of usage."""
        self.assertIn("streamd: option --sesp not recognized; see", self.refused("--sesp", "tcp:1"))

    def test_wrong_choice(self) -> None:
        """A word that is not among the choices is told with them."""
        said = self.refused("--sync", "often")
        self.assertIn("--sync: expected one of always, interval, never; got 'often'", said)

    def test_argument(self) -> None:
        """There are no arguments beside the options."""
        self.assertIn("Wrong number of arguments", self.refused("start"))

    def test_version(self) -> None:
        """The version is ours, not Twisted's."""
        self.assertEqual(self.assertRaises(SystemExit, self.parse, "--version").code, 0)
        self.assertEqual(self.printed.getvalue(), f"streamd {__version__}\n")

    def test_help(self) -> None:
        """The help names each option with its default."""
        self.assertEqual(self.assertRaises(SystemExit, self.parse, "--help").code, 0)
        text = " ".join(self.printed.getvalue().split())
        for words in (
            "--config=",
            "--data-dir= The directory of the store. [default: streamd-data]",
            "--queue= ENDPOINT for the queue of these tests. [default: tcp:9:interface=127.0.0.1]",
            "(always, interval, never). [default: always]",
            "(text, json). [default: text]",
            "[default: info]",
        ):
            self.assertIn(words, text)
        self.assertTrue(text.isascii())

    def test_found(self) -> None:
        """The options that twistd gets have one for each protocol that is installed."""
        options = Options()
        names = [each.name for each in found_protocols()]
        self.assertIn("sesp", names)
        for name in names:
            options.parseOptions([f"--{name}", "off"])
        self.assertEqual(options.overrides().endpoints, {name: ["off"] for name in names})

    def test_usage_error(self) -> None:
        """UsageError does not leave: twistd would answer it with all options of its own."""
        try:
            self.assertRaises(SystemExit, self.parse, "--queue")
        except UsageError as error:
            self.fail(str(error))


class MakeServiceTests(OptionsCase):
    def setUp(self) -> None:
        super().setUp()
        from twisted.internet import reactor

        # makeService changes the clock of the reactor that trial runs on.
        self.reactor: Any = reactor
        self.patch(self.reactor, "seconds", self.reactor.seconds)

    def test_nothing_opened(self) -> None:
        """Making the service opens neither store nor port."""
        data_dir = self.mktemp()
        options = Options()
        options.parseOptions(["--data-dir", data_dir])
        before = self.reactor.getReaders()
        makeService(options)
        self.assertEqual(self.reactor.getReaders(), before)
        self.assertFalse(Path(data_dir).exists())

    def test_clock(self) -> None:
        """From then on the reactor's time is the monotonic one."""
        options = Options()
        options.parseOptions([])
        makeService(options)
        before = time.monotonic()
        self.assertTrue(before <= self.reactor.seconds() <= time.monotonic())

    def test_refused(self) -> None:
        """What is wrong with the configuration is one line and status 1."""
        options = Options()
        options.parseOptions(["--config", "/nowhere/streamd.toml"])
        self.assertEqual(self.assertRaises(SystemExit, makeService, options).code, 1)
        self.assertEqual(self.said.getvalue(), "streamd: /nowhere/streamd.toml: No such file or directory\n")


# Two timers run on a wall clock that is then set by an hour, and a third one ends it.
_STEP = """
import sys, time
step, ours, wall = float(sys.argv[1]), sys.argv[2] == "ours", time.time
shift = 0.0
time.time = lambda: wall() + shift
from twisted.internet import reactor
if ours:
    from streamd.tap import Options, makeService
    options = Options()
    options.parseOptions([])
    makeService(options)
reactor.callLater(0.05, print, "soon", flush=True)
reactor.callLater(1800, print, "late", flush=True)
shift = step
reactor.callLater(0.5, reactor.stop)
reactor.run()
"""


class WallClockTests(SynchronousTestCase):
    def fired(self, step: int, clock: str) -> str:
        command = [sys.executable, "-c", _STEP, str(step), clock]
        ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout

    def test_steps(self) -> None:
        """A wall clock that is set back or ahead moves no timer. On Twisted's own clock it does: the test can tell."""
        self.assertEqual(self.fired(-3600, "ours"), "soon\n")
        self.assertEqual(self.fired(+3600, "ours"), "soon\n")
        self.assertEqual(self.fired(-3600, "twisted's"), "")
        self.assertEqual(self.fired(+3600, "twisted's"), "soon\nlate\n")
