"""The user's page on the messages for tools tells what is: its tables are compared with the program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.protocols.pravega.tools import _LISTED_MAX, READ_BYTES_MAX
from streamd.wire import tools as storage
from streamd.wire.fields import Fixed, Flag, Many, Message, Number, Records, Row, Text
from tests.rigs.daemon import CHECKOUT

NUMBERS = {"q": "signed int64", "I": "uint32", "H": "uint16", "B": "1 byte"}
WORDS = re.compile(
    r"signed int64|int64|uint32|uint16|1 byte|16 bytes|\btext\b|\bflag\b|\bmany\b|\brecords$|\brecords\)"
)


def words(field: Any) -> Iterator[str]:
    """What the page calls a field."""
    if isinstance(field, Number):
        yield "int64" if field._least == 0 else NUMBERS[field._form.format[1:]]
    elif isinstance(field, Many):
        yield "many"
        yield from words(field._field)
    elif isinstance(field, Row):
        for each in field._fields:
            yield from words(each)
    elif isinstance(field, Fixed):
        yield f"{field._length} bytes"
    else:
        yield next(word for kind, word in ((Text, "text"), (Flag, "flag"), (Records, "records")) if type(field) is kind)


class PageTests(SynchronousTestCase):
    def setUp(self) -> None:
        whole = (CHECKOUT / "docs" / "protocols" / "pravega.md").read_text(encoding="utf-8")
        self.text = whole.partition("\n## Messages for tools\n")[2].partition("\n## ")[0]

    def rows(self, cells: int) -> list[list[str]]:
        """The rows of all tables that have so many cells, without their heads."""
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in self.text.splitlines()]
        return [row for row in rows if len(row) == cells and re.search(r"\d", row[0] + row[1])]

    def compare(self, rows: list[list[str]], known: dict[int, type[Message]]) -> None:
        self.assertEqual({int(row[1]): row[0] for row in rows}, {each.type: each.__name__ for each in known.values()})
        for row in rows:
            fields = known[int(row[1])].fields
            told = [word.rstrip(")") for word in WORDS.findall(row[2])]
            self.assertEqual(told, [word for field in fields for word in words(field)], row[0])

    def test_requests(self) -> None:
        """Each request is there, with its type and its fields, and the answer it gets."""
        rows = self.rows(4)
        self.compare(rows, storage.REQUESTS)
        answers = {each.__name__ for each in storage.REPLIES.values()}
        self.assertLessEqual({row[3].partition(":")[0] for row in rows}, answers)

    def test_answers(self) -> None:
        """And each answer."""
        self.compare([row for row in self.rows(3) if len(row[1]) == 5], storage.REPLIES)

    def test_codes(self) -> None:
        """Each reason for a refusal, in the spelling that the client uses."""
        told = {int(row[0]): row[1] for row in self.rows(3) if row[0].isdigit()}
        self.assertEqual(told, {code.value: code.name.title().replace("_", "") for code in storage.Code})

    def test_limits(self) -> None:
        """The limits are those of the program."""
        for limit in (storage.RECORDS_MAX, storage.SPLIT_MAX, storage.PARTS_MAX, storage.LEVELS_MAX, _LISTED_MAX):
            self.assertIn(f"{limit:,}", self.text)
        self.assertIn(f"{READ_BYTES_MAX >> 20} MiB", self.text)
