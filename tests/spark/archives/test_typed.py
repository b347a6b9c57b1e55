"""Typed columns: what fits is stored as what it is, what does not is kept with why, wherever it stands."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from twisted.trial.unittest import SynchronousTestCase

from streamd.spark.archives.location import ArchiveError
from streamd.spark.archives.typed import UNTYPED, Typing, evolved, stored_typing

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("name", pa.string()),
    ]
)
GOOD = {"id": 1, "at": "2026-01-02T03:04:05.678901Z", "day": "2026-01-02", "price": 1.25, "name": "a"}
ROW = {
    "id": 1,
    "at": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
    "day": date(2026, 1, 2),
    "price": Decimal("1.25"),
    "name": "a",
    "error": None,
}
NULLS = dict.fromkeys(COLUMNS.names)


def fitted(typing: Typing, values: list[bytes], kind: str | None = None) -> list[dict[str, Any]]:
    """The typed columns of some messages."""
    batch = pa.RecordBatch.from_pylist([{"value": value, "type": kind} for value in values], UNTYPED)
    added = typing.added(batch)
    assert added.schema == typing.schema
    return [{name: row[name] for name in (*typing.columns.names, "error")} for row in added.to_pylist()]


class TypedTests(SynchronousTestCase):
    def test_json(self) -> None:
        """One message that does not fit, at any place among others, is the only one that has no columns."""
        good = str(GOOD).replace("'", '"').encode()
        typing = Typing("json", COLUMNS)
        bad = {
            b"": "not a JSON object",
            b"[1]": "not a JSON object",
            b'{"id":1}{"id":2}': "more than one value",
            b'{"id":1,': "not a JSON object",
            b'{"name":"a"}}': "JSON parse error",
            b'{"id":"1"}': "changed from number to string",
            b'{"id":1.5}': "couldn't parse",
            b'{"day":"today"}': "date32",
            b'{"name":"\xff"}': "UTF8",
            b'{"name":"a\nb"}': "Invalid encoding",
        }
        for value, why in bad.items():
            for count in (1, 2, 3, 40):
                for at in {0, count // 2, count - 1}:
                    messages = [good] * count
                    messages[at] = value
                    rows = fitted(typing, messages)
                    error = rows.pop(at)
                    self.assertEqual(rows, [ROW] * (count - 1))
                    self.assertIn(why, error.pop("error"))
                    self.assertEqual(error, NULLS)

    def test_json_halves(self) -> None:
        """Two halves of a message that would be one together are none, whatever else makes up for the count."""
        rows = fitted(Typing("json", COLUMNS), [b'{"id":1,', b'"name":"b"}', b'{"id":2}{"id":3}'])
        self.assertEqual([row["id"] for row in rows], [None] * 3)
        rows = fitted(Typing("json", COLUMNS), [b' {"id":\n7, "more":[{}]}\r\n', b"{}"])
        self.assertEqual([(row["id"], row["error"]) for row in rows], [(7, None), (None, None)])

    def test_csv(self) -> None:
        """The same of lines."""
        typing = Typing("csv", COLUMNS)
        good = b"1,2026-01-02T03:04:05.678901Z,2026-01-02,1.25,a"
        bad = {b"1,2": "Expected 5 columns", b"x,,,,": "int64", good + b"\n" + good: "more than one line"}
        for value, why in bad.items():
            rows = fitted(typing, [good, value, good + b"\n"])
            self.assertIn(why, rows[1]["error"])
            self.assertEqual([rows[0], rows[2]], [ROW, ROW])

    def test_smq(self) -> None:
        """The elements of a message, one for each column."""
        typing = Typing("smq", pa.schema([("first", pa.int32()), ("second", pa.float64())]))
        rows = fitted(typing, [struct.pack(">HH", 7, 8), struct.pack(">H", 7)], "U16")
        self.assertEqual(rows[0], {"first": 7, "second": 8.0, "error": None})
        self.assertIn("1 elements of type U16, and 2 columns", rows[1]["error"])
        rows = fitted(typing, [b"1\x00b\x00"], "Str")
        self.assertIn("b", rows[0]["error"])

    def test_evolved(self) -> None:
        """Columns are added and stay; another type, or another format, is refused with what to do."""
        old = Typing("json", pa.schema([("id", pa.int64()), ("timestamp", pa.string())]))
        self.assertEqual(stored_typing(0, old.schema), old)
        self.assertIn("value_timestamp", old.schema.names)
        more = evolved(old, Typing("json", pa.schema([("name", pa.string())])))
        self.assertEqual(more.columns.names, ["id", "timestamp", "name"])
        self.assertEqual(evolved(None, old), old)
        for wrong, why in (
            (Typing("json", pa.schema([("id", pa.string())])), "column 'id' is int64 in the archive, and string"),
            (Typing("csv", old.columns), "columns of json, not of csv"),
        ):
            self.assertIn(why, str(self.assertRaises(ArchiveError, evolved, old, wrong)))
