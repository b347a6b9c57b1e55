"""The examples run, on a real daemon, and print what they should."""

from __future__ import annotations

import os
import re
import subprocess
from tempfile import TemporaryDirectory

from twisted.trial.unittest import SynchronousTestCase

from streamd.tls.server_certificate import CA_NAME
from tests.rigs.daemon import CHECKOUT, Daemon
from tests.rigs.examples import ENVIRONMENT, EXAMPLES, FUJIN, command

# Example, service, and what it prints on a daemon that has nothing.
PRINTED = {
    "publish_and_read.py": ("sesp", "hello\nworld\nmessages in all: 2\n"),
    "work_queue.py": ("smq", "jobs done: 100\nsum of squares: 338350\n"),
    "fan_out.py": (
        "faststream",
        "alice: for alice alone\nalice: for the two of you\nalice: a surprise for carol\nalice: dinner is ready\n"
        "bob: for the two of you\nbob: a surprise for carol\nbob: dinner is ready\n"
        "carol: dinner is ready\n",
    ),
    "with_asyncio.py": ("pravega", "events: 10 sum: 45\n"),
    "with_twisted.py": (
        "sesp",
        "north: 1000 messages\neast: 1000 messages\nsouth: 1000 messages\nwest: 1000 messages\n",
    ),
}
APART = {"exactly_once.py"}

FUJIN_CONFIG = """
data_dir = "data"

[fujin]
endpoint = "quic:0:interface=127.0.0.1"

[fujin.readers.jobs]
auto_commit = false
"""


class ExampleTests(SynchronousTestCase):
    def test_all(self) -> None:
        """Each example is run by a test, and told of in the page; the page tells of no other."""
        names = {path.name for path in EXAMPLES.glob("*.py")}
        self.assertEqual(names, PRINTED.keys() | FUJIN.keys() | APART)
        page = (CHECKOUT / "docs" / "client.md").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r"\(examples/(\w+\.py)\)", page)), names)

    def test_each(self) -> None:
        """Each prints what it should, on one daemon."""
        with Daemon(os.path.abspath(self.mktemp())) as daemon:
            for name, (service, printed) in PRINTED.items():
                ended = subprocess.run(
                    command(name, f"127.0.0.1:{daemon.port(service)}"),
                    env=ENVIRONMENT,
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, printed, ""), name)

    def test_fujin(self) -> None:
        """So does each of those over QUIC."""
        daemon = Daemon(os.path.abspath(self.mktemp()), "--config", "streamd.toml")
        daemon.directory.mkdir(parents=True)
        (daemon.directory / "streamd.toml").write_text(FUJIN_CONFIG)
        self.addCleanup(daemon.close)
        daemon.start()
        for name, printed in FUJIN.items():
            ended = subprocess.run(
                [*command(name, f"127.0.0.1:{daemon.port('fujin')}"), str(daemon.directory / "data" / CA_NAME)],
                env=ENVIRONMENT,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, printed, ""), name)

    def test_exactly_once(self) -> None:
        """Lines are stored once although the daemon is killed between them."""
        with TemporaryDirectory() as directory:
            path = os.path.join(directory, "pravega.sock")
            daemon = Daemon(os.path.abspath(self.mktemp()), "--pravega", f"unix:{path}")
            self.addCleanup(daemon.close)
            daemon.start()
            with subprocess.Popen(
                command("exactly_once.py", f"unix:{path}"),
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            ) as example:
                self.addCleanup(example.kill)
                assert example.stdin is not None and example.stdout is not None
                for line in ("one\n", "two\n", "three\n"):
                    example.stdin.write(line)
                    self.assertEqual(example.stdout.readline(), f"stored: {line}")
                    daemon.kill()
                    daemon.start()
                example.stdin.close()
                self.assertEqual(example.stdout.read(), "in the segment: one, two, three\n")
                self.assertEqual(example.wait(60), 0)
