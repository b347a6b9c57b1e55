"""`streamctl tail` and `cat`: what is published is what is shown, as text, as it is and as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from streamd.cli.places import END, FIRST, place
from tests.rigs.cli.case import DaemonCase
from tests.rigs.cli.run import environment, on_terminal
from tests.rigs.daemon import CHECKOUT


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
