"""`streamctl export`: what is published is in the file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as parquet

from tests.rigs.cli.case import DaemonCase


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
        self.assertIn("189 messages", self.ctl("export", "columns", "--format", "parquet", "-o", path).text)
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
