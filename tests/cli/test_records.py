"""Messages in and out: what is published is what is read, as text, as it is, as JSON and as Parquet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as parquet

from streamd.cli.places import END, FIRST, place
from tests.cli.case import DaemonCase
from tests.cli.run import ctl, environment, on_terminal
from tests.daemon import CHECKOUT, Daemon


class PublishTests(DaemonCase):
    def test_lines(self) -> None:
        """Lines of the standard input and of files, the last one with or without its end; empty ones count."""
        file = Path(self.path())
        file.write_bytes(b"three\n\nfive")
        told = self.ctl("publish", "lines", "-", str(file), "--create", "--json", given=b"one\ntwo\n").json
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
            self.assertIn(b"3 records published", process.stdout.read())
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
                self.assertEqual((process.stdout.read(), process.wait(60)), (b"t: 3 records published\n", 0))
            found = ctl("tail", "t", "--path", str(daemon.data_dir)).text
            self.assertEqual(found, "line 0\nline 1\nline 2\n")

    def wait_for_topic(self, daemon: Daemon) -> None:
        """Until there is one: what makes a topic does not try again when it is told nothing."""
        while not ctl("topics", "--json", "--path", str(daemon.data_dir)).json:
            pass

    def test_refused(self) -> None:
        """No topic, no file, a message that is too large."""
        self.refused(1, "'streamctl create' makes one", "publish", "nowhere", given=b"x\n")
        self.refused(2, "/nowhere: No such file", "publish", "x", "/nowhere")
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
            self.assertEqual((process.stdout.read(), process.wait(60)), (b"slow: 1 record published\n", 130))
        self.assertEqual(self.ctl("tail", "slow").text, "whole\n")


class TailTests(DaemonCase):
    def test_places(self) -> None:
        """From an offset, a time, the first, the end; the last so many; so many in all."""
        self.publish("places", *[b"%d" % number for number in range(20)])
        last_ten = "".join(f"{number}\n" for number in range(10, 20))
        for arguments, text in (
            ((), last_ten),
            (("-n", "2"), "18\n19\n"),
            (("--from", "17"), "17\n18\n19\n"),
            (("--from", "first", "-c", "3"), "0\n1\n2\n"),
            (("--from", "end"), ""),
            (("--from", "1h", "--count", "1"), "0\n"),
            (("--from", "2020-01-01", "--count", "1"), "0\n"),
            (("--from", "2100-01-01"), ""),
            (("--from", "1000"), ""),
            (("-n", "0"), ""),
        ):
            for path in ((), ("--path", self.data)):
                self.assertEqual(self.ctl("tail", "places", *arguments, *path).text, text, arguments)

    def test_times(self) -> None:
        """A time of day is UTC unless it says otherwise; ago counts from now."""
        moment = int(datetime(2026, 11, 16, 18, tzinfo=UTC).timestamp()) * 1_000_000
        self.assertEqual(place("2026-11-16T18:00").timestamp, moment)
        self.assertEqual(place("2026-11-16T19:00+01:00").timestamp, moment)
        self.assertEqual(place("2026-11-16T18:00:00.000001").timestamp, moment + 1)
        ago = place("2h").timestamp
        assert ago is not None
        self.assertLess(abs(time.time() - 7200 - ago / 1e6), 60)
        self.assertEqual((place("first"), place("end"), place("7").number), (FIRST, END, 7))
        ended = self.run_ctl("tail", "x", "--from", "yesterday")
        self.assertEqual(ended.status, 2)
        self.assertIn("'yesterday' is no place in a topic", ended.err)

    def test_shapes(self) -> None:
        """Text is escaped where a line can't hold it; raw is as it is; JSON tells which it is."""
        path = Path(self.path())
        path.write_bytes(b"two\nlines, \xff and \\")
        self.ctl("publish", "shapes", "--create", "--whole", str(path))
        self.publish("shapes", "grüße".encode())
        self.assertEqual(self.ctl("tail", "shapes").text, "two\\nlines, \\xff and \\\\\ngrüße\n")
        self.assertEqual(self.ctl("tail", "shapes", "--raw").out, b"two\nlines, \xff and \\" + "grüße".encode())
        found = [json.loads(line) for line in self.ctl("tail", "shapes", "--json").text.splitlines()]
        self.assertEqual([each["offset"] for each in found], [0, 1])
        self.assertEqual(found[0]["value_base64"], "dHdvCmxpbmVzLCD/IGFuZCBc")
        self.assertEqual((found[1]["topic"], found[1]["value"]), ("shapes", "grüße"))
        self.assertLess(abs(time.time() - datetime.fromisoformat(found[1]["timestamp"]).timestamp()), 3600)

    def test_terminal(self) -> None:
        """What somebody has published commands no terminal."""
        self.publish("escapes", b"\x1b[31mred\x07\ttab \xc2\x9b2J", "grüße".encode())
        _, seen = on_terminal(self, "tail", "escapes")
        self.assertEqual(seen, "\\x1b[31mred\\x07\ttab \\xc2\\x9b2J\r\ngrüße\r\n")

    def test_full(self) -> None:
        """A full disk behind the standard output is an error of one line, and no traceback."""
        self.publish("full", b"one")
        with open("/dev/full", "wb") as full:
            ended = subprocess.run(
                [sys.executable, "-m", "streamd.cli", "tail", "full"],
                env={**os.environ, "PYTHONPATH": str(CHECKOUT), **environment(self.daemon)},
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=120,
                check=False,
            )
        self.assertEqual((ended.returncode, ended.stderr.count(b"\n")), (1, 1))
        self.assertIn(b"No space left on device: make room", ended.stderr)

    def test_follow(self) -> None:
        """It goes on until so many have come, and ends with a sealed topic by itself."""
        self.publish("followed", b"one")
        for path in ((), ("--path", self.data)):
            with subprocess.Popen(
                [sys.executable, "-m", "streamd.cli", "tail", "-f", "followed", *path],
                env={**os.environ, "PYTHONPATH": str(CHECKOUT), **environment(self.daemon)},
                stdout=subprocess.PIPE,
            ) as process:
                self.addCleanup(process.kill)
                assert process.stdout is not None
                self.assertEqual(process.stdout.readline(), b"one\n")
                if path:
                    self.assertEqual(process.stdout.readline(), b"two\n")
                else:
                    self.publish("followed", b"two")
                    self.assertEqual(process.stdout.readline(), b"two\n")
                    self.ctl("seal", "followed")
                self.assertEqual((process.stdout.read(), process.wait(60)), (b"", 0))

    def test_reader_leaves(self) -> None:
        """Whoever reads what is printed may leave, as head does: nobody complains."""
        self.publish("long", *[b"x" * 1000] * 1000)
        for path in ((), ("--path", self.data)):
            with subprocess.Popen(
                [sys.executable, "-m", "streamd.cli", "tail", "long", "--from", "first", *path],
                env={**os.environ, "PYTHONPATH": str(CHECKOUT), **environment(self.daemon)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            ) as process:
                assert process.stdout is not None and process.stderr is not None
                process.stdout.readline()
                process.stdout.close()
                self.assertEqual((process.stderr.read(), process.wait(60)), (b"", 1))


class ExportTests(DaemonCase):
    def test_json_lines(self) -> None:
        """All messages of several topics, in a file or on the standard output."""
        self.publish("from.a", b"one", b"two")
        self.publish("from.b", b"three")
        found = [json.loads(line) for line in self.ctl("export", "from.a", "from.b").text.splitlines()]
        self.assertEqual(
            [(each["topic"], each["offset"]) for each in found], [("from.a", 0), ("from.a", 1), ("from.b", 0)]
        )
        path = self.path()
        told = self.ctl("export", "from.a", "--from", "1", "-o", path, "--json", "--path", self.data).json
        self.assertEqual(told, [{"topic": "from.a", "first_offset": 1, "next_offset": 2}])
        self.assertEqual([json.loads(line) for line in Path(path).read_text().splitlines()], [found[1]])
        self.assertEqual(self.ctl("export", "from.a", "--to", "1").text.count("\n"), 1)

    def test_parquet(self) -> None:
        """The columns that Spark sees, with every byte of every message."""
        data = [bytes([number]) * number for number in range(11, 200)]
        self.publish("columns", *data)
        path = self.path()
        self.assertIn("189 records", self.ctl("export", "columns", "--format", "parquet", "-o", path).text)
        table = parquet.read_table(path)
        self.assertEqual(table.column_names, ["topic", "offset", "timestamp", "type", "value"])
        self.assertEqual(table["value"].to_pylist(), data)
        self.assertEqual(table["offset"].to_pylist(), list(range(len(data))))

    def test_refused(self) -> None:
        """Parquet wants a file, and what fails leaves none."""
        self.publish("half", b"one")
        self.refused(2, "give --output FILE", "export", "half", "--format", "parquet")
        self.refused(2, "give --output FILE", "export", "half", "--json")
        path = self.path()
        self.refused(1, "no such topic", "export", "half", "never there", "-o", path)
        self.refused(1, "No such file or directory", "export", "half", "-o", "/nowhere/at/all")
        self.assertFalse(os.path.exists(path) or os.path.exists(f"{path}.tmp"))
