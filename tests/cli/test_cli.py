"""streamctl: its help, its errors and their exit statuses, with Spark and without."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from streamd import __version__
from streamd.cli.spark.start import in_short
from tests.rigs.daemon import CHECKOUT

PIPELINE = str(CHECKOUT / "etc" / "pipelines" / "sessions.toml")

# streamctl in an interpreter where these can't be imported.
WITHOUT = """
import sys
for name in sys.argv.pop(1).split(","):
    sys.modules[name] = None
from streamd.cli import main
sys.exit(main())
"""


def run(*arguments: str, without: str = "none") -> subprocess.CompletedProcess[str]:
    """Run streamctl."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, without, *arguments],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class CommandTests(SynchronousTestCase):
    def refused(self, status: int, text: str, *arguments: str, without: str = "none") -> None:
        """It says one line that holds the text, and exits so."""
        ended = run(*arguments, without=without)
        self.assertEqual((ended.returncode, ended.stdout), (status, ""), ended.stderr)
        self.assertIn(text, ended.stderr)
        self.assertNotIn("Traceback", ended.stderr)

    def test_help(self) -> None:
        """Help and version need nothing that is not installed with streamd."""
        for arguments in (["--help"], ["archive", "--help"], ["pipeline", "run", "--help"]):
            ended = run(*arguments, without="pyspark,pyarrow,numpy")
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertTrue(ended.stdout.startswith("usage: streamctl"))
        self.assertEqual(run("--version").stdout, f"streamctl {__version__}\n")

    def test_without_spark(self) -> None:
        """Who has no Spark is told how to come by it."""
        text = "in a checkout of streamd, pip install '.[spark]'; or Debian's package streamd-spark"
        for missing in ("pyspark", "pyarrow"):
            told = f"{missing} is not installed: {text}"
            self.refused(69, told, "archive", "a", "--to", "x", "--path", "y", without=missing)
            self.refused(69, told, "pipeline", "check", PIPELINE, without=missing)

    def test_usage(self) -> None:
        """A command line that can't be used is told of before Spark is started."""
        self.refused(2, "COMMAND")
        self.refused(2, "invalid choice: 'archiv'", "archiv")
        self.refused(2, "--to", "archive", "a")
        self.refused(2, "'4x' is no number of bytes", "archive", "a", "--to", "x", "--file-bytes", "4x")
        self.refused(2, "'spark' is no KEY=VALUE", "archive", "a", "--to", "x", "--conf", "spark")
        self.refused(2, "--server: 'a:b' is no address", "archive", "a", "--to", "x", "--server", "a:b")
        self.refused(2, "nowhere.toml: No such file", "pipeline", "run", "nowhere.toml")

    def test_no_daemon(self) -> None:
        """So is a daemon that is not there."""
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            port = nobody.getsockname()[1]
        self.refused(69, f"no daemon at 127.0.0.1:{port}", "archive", "a", "--to", "x", "--server", f"127.0.0.1:{port}")
        path = Path(self.mktemp())
        path.write_text(Path(PIPELINE).read_text().replace("127.0.0.1:12345", f"127.0.0.1:{port}"))
        self.refused(69, f"no daemon at 127.0.0.1:{port}", "pipeline", "run", str(path))

    def test_in_short(self) -> None:
        """Of an error in a task the last line of Python's is told; of others the first."""
        task = (
            "Job aborted\nTraceback (most recent call last):\n  File x\nstreamd.spark.places.DataLost: gone\n\tat org.x"
        )
        self.assertEqual(in_short(ValueError(task)), "gone")
        self.assertEqual(in_short(ValueError("x\njava.io.IOException: y\nValueError: bad\n")), "ValueError: bad")
        self.assertEqual(in_short(ValueError("[X] no\nmore")), "[X] no")
