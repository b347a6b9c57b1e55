"""Messages from words, files, topics and other daemons, and messages for later."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as parquet

from tests.rigs.cli.case import DaemonCase
from tests.rigs.cli.run import ctl, environment
from tests.rigs.daemon import CHECKOUT, Daemon


class TransferTests(DaemonCase):
    def test_import(self) -> None:
        """What was exported is imported again: text and bytes; what is no such line ends it, with its number."""
        path = self.path()
        self.ctl("publish", "a", "one", "größe", "--create")
        self.ctl("publish", "a", "--whole", "-", given=b"\xff\n\x00")
        self.ctl("export", "a", "-o", path)
        self.assertEqual(self.ctl("import", "b", path, "--create").text, "b: 3 messages published\n")
        self.assertEqual(self.ctl("tail", "b", "--raw").out, self.ctl("tail", "a", "--raw").out)
        self.refused(1, "-, line 2: no object of 'streamctl export'", "import", "b", given=b'{"value": "x"}\n{}\n')
        self.assertEqual(self.ctl("tail", "b", "-n", "1").text, "x\n")

    def test_copy(self) -> None:
        """A topic is copied to another one, here or in another daemon; not to itself."""
        other = Daemon(self.path())
        self.addCleanup(other.close)
        other.start()
        self.ctl("publish", "a", "one", "two", "three", "--create")
        self.ctl("copy", "a", "b", "--create", "--from", "1")
        self.assertEqual(self.ctl("tail", "b").text, "two\nthree\n")
        server = environment(other)["STREAMD_SERVER"]
        self.ctl("copy", "a", "a", "--create", "--to-server", server)
        self.assertEqual(ctl("tail", "a", "--server", server).text, "one\ntwo\nthree\n")
        self.refused(2, "can't be copied to itself", "copy", "a", "a")
        self.refused(1, "nosuch: there is no such topic", "copy", "a", "nosuch")

    def test_words(self) -> None:
        """Words are messages, as they are; - stands for lines; a file is told apart by its option."""
        self.ctl("publish", "w", "hello", "", "two words", "größe", "--create")
        self.assertEqual(self.ctl("tail", "w").text, "hello\n\ntwo words\ngröße\n")
        self.ctl("publish", "w", "first", "-", given=b"line\n")
        self.assertEqual(self.ctl("tail", "w", "-n", "2").text, "first\nline\n")
        path = self.path()
        Path(path).write_text("in a file\n")
        ended = self.run_ctl("publish", "w", path)
        self.assertEqual((ended.status, self.ctl("tail", "w", "-n", "1").text), (0, f"{path}\n"))
        self.assertIn("--file publishes the lines", ended.err)

    def test_format(self) -> None:
        """Fields and escapes of a format; what is none is refused before anything is asked."""
        self.ctl("publish", "f", "one", "--create")
        self.assertEqual(self.ctl("tail", "f", "--format", r"%t %o %S %s %% \t\x41\\\n").text, "f 0 3 one % \tA\\\n")
        self.assertRegex(self.ctl("tail", "f", "--format", "%T").text, r"^\d{13}$")
        for wrong in ("%q", "%", "\\", "\\q"):
            self.assertEqual(self.run_ctl("tail", "f", "--format", wrong).status, 2, wrong)

    def test_parquet(self) -> None:
        """A name that ends so is enough."""
        self.ctl("publish", "p", "one", "--create")
        path = f"{self.path()}.parquet"
        self.ctl("export", "p", "-o", path)
        self.assertEqual(parquet.read_table(path)["value"].to_pylist(), [b"one"])

    def test_restart(self) -> None:
        """Who follows a topic goes on where it was when the daemon comes back."""
        self.ctl("publish", "r", "one", "--create")
        server = environment(self.daemon)["STREAMD_SERVER"]
        with subprocess.Popen(
            [sys.executable, "-m", "streamd.cli", "tail", "r", "-f", "-c", "2", "--server", server],
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            self.addCleanup(process.kill)
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), b"one\n")
            port = server.rpartition(":")[2]
            self.daemon.kill()
            again = Daemon(str(self.daemon.directory), "--pravega", f"tcp:{port}:interface=127.0.0.1")
            self.addCleanup(again.close)
            again.start()
            self.assertEqual(ctl("publish", "r", "two", "--server", server).status, 0)
            self.assertEqual(process.communicate(timeout=60)[0], b"two\n")

    def test_later(self) -> None:
        """A message for later is on disk when the command ends, and visible at its time; what is no time is refused."""
        self.ctl("publish", "l", "later", "--delay", "0.5", "--create")
        self.assertEqual(self.ctl("tail", "l").text, "")
        self.assertEqual(self.ctl("tail", "l", "-f", "-c", "1").text, "later\n")
        self.ctl("publish", "l", "now", "--at", "2001-01-01T00:00")
        self.assertEqual(self.ctl("tail", "l").text, "later\nnow\n")
        for wrong in (("--delay", "-1"), ("--delay", "x"), ("--at", "end"), ("--at", "tomorrow")):
            self.assertEqual(self.run_ctl("publish", "l", "x", *wrong).status, 2, wrong)
