"""`streamctl top`: rates count what happened, on a terminal and elsewhere."""

from __future__ import annotations

import json

from streamd.cli.top import rates
from streamd.wire.tools import SegmentInfo
from tests.rigs.cli.case import DaemonCase
from tests.rigs.cli.run import on_terminal


def info(id: int, number: int, offset: int) -> SegmentInfo:
    return SegmentInfo(id, f"topic {id}", 0, number, 0, offset, 0, 0, False)


class TopTests(DaemonCase):
    def test_rates(self) -> None:
        """What came, in a second; the busiest first; one that is new had nothing, one that is gone is not shown."""
        before = {1: info(1, 10, 100), 2: info(2, 0, 0), 4: info(4, 5, 50)}
        now = {1: info(1, 30, 500), 2: info(2, 100, 4000), 3: info(3, 4, 40)}
        found = rates(before, now, 2.0)
        self.assertEqual(
            [(each.name, each.records, each.bytes, each.held) for each in found],
            [("topic 2", 50.0, 2000.0, 100), ("topic 1", 10.0, 200.0, 30), ("topic 3", 2.0, 20.0, 4)],
        )

    def test_looks(self) -> None:
        """So many looks, as JSON or as tables, at a daemon or at its files."""
        self.publish("quiet", b"one")
        quick = ("--interval", "0.05", "--looks", "2")
        for path in ((), ("--path", self.data)):
            looks = [json.loads(line) for line in self.ctl("top", *quick, "--json", *path).text.splitlines()]
            self.assertEqual(len(looks), 2)
            self.assertEqual(looks[0]["topics"][0]["records"], 1)
            self.assertEqual(looks[0]["records_per_second"], 0)
        self.assertEqual(self.ctl("top", *quick).text.count("topic"), 2)

    def test_terminal(self) -> None:
        """On a terminal it is a screen that is drawn again, and left as it was."""
        ended, seen = on_terminal(self, "top", "--interval", "0.05", "--looks", "2")
        self.assertEqual(ended, 0)
        self.assertIn("messages/s", seen)
        self.assertIn("\x1b[?1049l", seen)

    def test_progress(self) -> None:
        """Whoever sits at a terminal sees a bar; what is printed is the same."""
        path = self.path()
        with open(path, "wb") as file:
            file.write(b"a line\n" * 1000)
        ended, seen = on_terminal(self, "publish", "shown", "--create", "--file", path)
        self.assertEqual(ended, 0)
        self.assertIn("━", seen)
        self.assertIn("1,000 messages published", seen)
        _, seen = on_terminal(self, "publish", "shown", "--no-progress", "--file", path)
        self.assertEqual(seen, "shown: 1,000 messages published\r\n")
