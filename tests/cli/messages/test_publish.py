"""Messages in and out: what is published is what is read, as text, as it is, as JSON and as Parquet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.rigs.cli.case import DaemonCase
from tests.rigs.cli.run import ctl, environment
from tests.rigs.daemon import CHECKOUT, Daemon


class PublishTests(DaemonCase):
    def test_lines(self) -> None:
        """Lines of the standard input and of files, the last one with or without its end; empty ones count."""
        file = Path(self.path())
        file.write_bytes(b"three\n\nfive")
        told = self.ctl("publish", "lines", "-", "--file", str(file), "--create", "--json", given=b"one\ntwo\n").json
        self.assertEqual((told["topic"], told["records"], told["bytes"]), ("lines", 5, 15))
        self.assertEqual(self.ctl("tail", "lines").text, "one\ntwo\nthree\n\nfive\n")

    def test_many(self) -> None:
        """More than is read at once: all of it, in order."""
        lines = [b"%d %s" % (number, b"x" * (number % 1000)) for number in range(5000)]
        self.publish("many", *lines)
        self.assertEqual(self.ctl("tail", "many", "--from", "first").out.splitlines(), lines)

    def test_whole(self) -> None:
        """A file is one message, whatever is in it."""
        data = bytes(range(256)) * 300
        paths = [Path(self.path()) for _ in range(2)]
        for path in paths:
            path.write_bytes(data)
        self.ctl("publish", "files", "--create", "--whole", *map(str, paths))
        self.assertEqual(self.ctl("tail", "files", "--raw").out, data + data)
        self.assertEqual(self.ctl("tail", "files", "--raw", "-n", "1").out, data)

    def publishing(self, topic: str) -> subprocess.Popen[bytes]:
        """What publishes the lines that it is given, one by one."""
        process = subprocess.Popen(
            [sys.executable, "-m", "streamd.cli", "publish", topic],
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), **environment(self.daemon)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.addCleanup(process.kill)
        return process

    def test_as_they_come(self) -> None:
        """A line is on disk before the next one is written, though the input goes on."""
        self.ctl("create", "slow")
        with self.publishing("slow") as process:
            assert process.stdin is not None and process.stdout is not None
            for number in range(3):
                process.stdin.write(b"line %d\n" % number)
                process.stdin.flush()
                found = self.ctl("tail", "slow", "--follow", "--from", str(number), "--count", "1").text
                self.assertEqual(found, f"line {number}\n")
            process.stdin.close()
            self.assertIn(b"3 messages published", process.stdout.read())
            self.assertEqual(process.wait(60), 0)

    def test_restarted(self) -> None:
        """The daemon is killed and started again between lines, and each is stored once."""
        with TemporaryDirectory() as directory:
            socket = f"unix:{directory}/socket"
            daemon = Daemon(self.path(), "--pravega", socket)
            self.addCleanup(daemon.close)
            daemon.start()
            with subprocess.Popen(
                [sys.executable, "-m", "streamd.cli", "publish", "t", "--create", "--server", socket],
                env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as process:
                self.addCleanup(process.kill)
                assert process.stdin is not None and process.stdout is not None
                for number in range(3):
                    process.stdin.write(b"line %d\n" % number)
                    process.stdin.flush()
                    if number == 0:
                        self.wait_for_topic(daemon)
                    daemon.kill()
                    daemon.start()
                process.stdin.close()
                self.assertEqual((process.stdout.read(), process.wait(60)), (b"t: 3 messages published\n", 0))
            found = ctl("tail", "t", "--path", str(daemon.data_dir)).text
            self.assertEqual(found, "line 0\nline 1\nline 2\n")

    def wait_for_topic(self, daemon: Daemon) -> None:
        """Until there is one: what makes a topic does not try again when it is told nothing."""
        while not ctl("topics", "--json", "--path", str(daemon.data_dir)).json:
            pass

    def test_refused(self) -> None:
        """No topic, no file, a message that is too large."""
        self.refused(1, "or --create, makes one", "publish", "nowhere", given=b"x\n")
        self.refused(2, "/nowhere: No such file", "publish", "x", "--file", "/nowhere")
        big = ("--message-bytes-max", "1k")
        self.refused(1, "over 1024 bytes", "publish", "big", "--create", *big, given=b"x" * 1025)
        self.refused(1, "over 1024 bytes", "publish", "big", "--whole", *big, given=b"x\n" * 513)
        self.assertEqual(self.ctl("tail", "big").text, "")
        lines = b"".join(b"%d\n" % number for number in range(60_000))
        self.refused(1, "Those before it are published", "publish", "big", *big, given=lines + b"x" * 500_000)
        self.assertEqual(self.ctl("tail", "big", "--from", "first").out, lines)

    def test_interrupted(self) -> None:
        """Ctrl-C ends the input: what was read is on disk, and told."""
        self.ctl("create", "slow")
        with self.publishing("slow") as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(b"whole\nhalf")
            process.stdin.flush()
            self.assertEqual(self.ctl("tail", "slow", "--follow", "--count", "1").text, "whole\n")
            process.send_signal(signal.SIGINT)
            self.assertEqual((process.stdout.read(), process.wait(60)), (b"slow: 1 message published\n", 130))
        self.assertEqual(self.ctl("tail", "slow").text, "whole\n")
