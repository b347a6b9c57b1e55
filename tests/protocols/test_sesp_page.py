"""The user's page on SESP tells what is: its examples are pasted, its tables compared."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re

from twisted.trial.unittest import SynchronousTestCase

from streamd.protocols import sesp as protocol
from streamd.settings import Limits
from streamd.wire import sesp as wire
from tests.rigs.daemon import CHECKOUT
from tests.rigs.protocols.rig import Rig

VOLATILE = ("created", "version", "uptime", "commits")


def comparable(line: str) -> object:
    """A reply; of one with a JSON object the values that differ from run to run are left out."""
    if not line.startswith("+{"):
        return line

    def without(pairs: list[tuple[str, object]]) -> list[tuple[str, object]]:
        return [(key, None if key in VOLATILE else value) for key, value in pairs]

    return json.loads(line[1:], object_pairs_hook=without)


class PageTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.text = (CHECKOUT / "docs" / "protocols" / "sesp.md").read_text(encoding="utf-8")
        self.rig = Rig(os.path.abspath(self.mktemp()))
        self.addCleanup(self.rig.close)

    def rows(self, heading: str) -> list[list[str]]:
        """The tables under a heading, row by row, without their heads."""
        part = self.text.partition(f"\n{heading}\n")[2]
        part = re.split(r"^#", part, maxsplit=1, flags=re.MULTILINE)[0]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]
        return [row for at, row in enumerate(rows) if not (row[0].startswith("---") or _is_head(rows, at))]

    def test_examples(self) -> None:
        """Every example, pasted as telnet sends it or as a program does, is answered as the page says."""
        pairs = re.findall(r"^```sesp\n(.*?)^```\n\n```sesp-replies\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)
        self.assertEqual(len(pairs), self.text.count("```sesp\n"))
        self.assertEqual(len(pairs), self.text.count("```sesp-replies\n"))
        self.assertGreater(len(pairs), 5)
        for number, (asked, replies) in enumerate(pairs):
            end = "\r\n" if number % 2 else "\n"
            peer = self.rig.connect()
            told = peer.ask(asked.replace("\n", end).encode()).decode()
            self.assertEqual([*map(comparable, told.splitlines())], [*map(comparable, replies.splitlines())], asked)
            peer.drop()

    def test_commands(self) -> None:
        """The table of commands has every action byte there is."""
        actions = {row[0].strip("`")[0] for row in self.rows("## Commands")}
        peer = self.rig.connect()
        for byte in range(0x21, 0x7F):
            refused = peer.ask(bytes([byte]) + b"\n") == b"-InvalidCommand\n"
            self.assertEqual(chr(byte) not in actions, refused, chr(byte))

    def test_errors(self) -> None:
        """The table of errors has every error of the program, and no other."""
        source = inspect.getsource(wire) + inspect.getsource(protocol)
        errors = set(re.findall(r'(?:error_line|Refused|_invalid)\("(\w+)"', source)) | set(protocol._ERRORS.values())
        self.assertEqual({row[0].strip("`-") for row in self.rows("## Errors")}, errors)

    def test_escapes(self) -> None:
        """Each message of the table is read back as the table says."""
        rows = self.rows("## Escaped messages")
        self.assertGreater(len(rows), 3)
        peer = self.rig.connect()
        peer.ask(b"#a\n@a\n")
        for message, reply in rows:
            self.rig.publish("a", ast.literal_eval(message.strip("`")))
            self.assertEqual(peer.ask(b"<\n").decode(), reply.strip("`") + "\n")

    def test_limits(self) -> None:
        """The defaults are those of the program."""
        limits = Limits()
        rows = self.rows("## Limits")
        self.assertGreater(len(rows), 4)
        for name, default, _ in rows:
            self.assertEqual(default, str(getattr(limits, name.strip("`"))), name)

    def test_fields(self) -> None:
        """Each field of the JSON objects is explained."""
        explained = set(
            re.findall(r"`(\w+)`", " ".join(" ".join(row) for row in self.rows("### `?` list and describe, `&` state")))
        )
        peer = self.rig.connect()
        for line in (b"#a\n", b"?a\n", b"&\n"):
            told = peer.ask(line)
            if told.startswith(b"+{"):
                self.assertLessEqual(set(json.loads(told[1:])), explained)
                self.assertLessEqual(set(json.loads(told[1:]).get("store", {})), explained)

    def test_links(self) -> None:
        """What it points to is there."""
        for target in re.findall(r"\]\(([^)]+)\)", self.text):
            self.assertTrue((CHECKOUT / "docs" / "protocols" / target).exists(), target)


def _is_head(rows: list[list[str]], at: int) -> bool:
    return at + 1 < len(rows) and rows[at + 1][0].startswith("---")
