"""The user's page on Fujin tells what is: its examples are pasted, its tables compared."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields

from streamd.protocols.fujin.settings import FujinSettings, configure
from streamd.tls.server_certificate import CA_NAME
from streamd.wire.fujin import TOPIC_BYTES_MAX, Opcode
from streamd.wire.fujin_replies import Code, Reply
from tests.rigs.daemon import CHECKOUT
from tests.rigs.protocols.fujin_case import FujinCase
from tests.rigs.protocols.smq_case import from_hex


class PageTests(FujinCase):
    def setUp(self) -> None:
        self.text = (CHECKOUT / "docs" / "protocols" / "fujin.md").read_text(encoding="utf-8")
        (block,) = re.findall(r"^```toml\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)
        self.table = tomllib.loads(block)["fujin"]
        self.settings = configure({key: value for key, value in self.table.items() if key != "endpoint"})
        super().setUp()

    def rows(self, heading: str) -> list[list[str]]:
        """The rows of the table under a heading."""
        part = self.text.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
        rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| ")]
        return [[cell.strip() for cell in row] for row in rows[1:]]

    def test_examples(self) -> None:
        """Every example is answered as the page says, to the byte."""
        for asked, replies in self.blocks():
            peer = self.rig.connect()
            self.assertEqual(peer.ask(from_hex(asked)).hex(" "), from_hex(replies).hex(" "), asked)
            peer.drop()

    def blocks(self) -> list[tuple[str, str]]:
        """What is sent and what comes back, stream by stream."""
        asked = re.findall(r"^```fujin\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)
        replies = re.findall(r"^```fujin-replies\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)
        self.assertGreater(len(asked), 4)
        return list(zip(asked, replies, strict=True))

    def test_commands(self) -> None:
        """The table has each opcode and each reply."""
        rows = self.rows("## Commands")
        self.assertEqual(sorted({int(row[1]) for row in rows}), sorted({*Opcode, Reply.STOP}))
        replies = {int(found[0]) for row in rows if (found := re.match(r"\d+", row[3]))}
        self.assertEqual(replies | {Reply.STOP}, set(Reply))

    def test_codes(self) -> None:
        """The table has each code with its name."""
        rows = self.rows("## Errors")
        self.assertEqual([(int(row[0]), row[1]) for row in rows], [(code.value, code.name) for code in Code])
        self.assertIn(f"over {TOPIC_BYTES_MAX} bytes", self.text)

    def test_settings(self) -> None:
        """The settings are those of the program, with their defaults."""
        for each in fields(FujinSettings):
            if each.name != "readers":
                self.assertEqual(self.table[each.name], each.default, each.name)
        self.assertIn(CA_NAME, self.text)

    def test_links(self) -> None:
        """What it points to is there."""
        for target in re.findall(r"\]\(([^)]+)\)", self.text):
            self.assertTrue((CHECKOUT / "docs" / "protocols" / target).exists(), target)
