"""The user's page on Simple Message Queue tells what is: its examples are pasted, its tables compared."""

from __future__ import annotations

import os
import re
import tomllib
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.protocols import smq as protocol
from streamd.settings import Limits
from streamd.wire import smq as wire
from tests.rigs.daemon import CHECKOUT, Daemon
from tests.rigs.protocols.rig import Rig
from tests.rigs.protocols.smq_case import from_hex
from tests.rigs.wire.smq import push


class PageTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.text = (CHECKOUT / "docs" / "protocols" / "smq.md").read_text(encoding="utf-8")
        self.rig = Rig(
            os.path.abspath(self.mktemp()),
            make_factory=lambda core: protocol.factory(core, protocol.configure({})),
        )
        self.addCleanup(self.rig.close)

    def rows(self, heading: str) -> list[list[str]]:
        """The rows of the tables under a heading."""
        part = self.text.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
        rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| ")]
        return [[cell.strip() for cell in row] for row in rows]

    def blocks(self, language: str) -> list[str]:
        return re.findall(rf"^```{language}\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)

    def test_examples(self) -> None:
        """Every example is answered as the page says, to the byte, in one piece and byte by byte."""
        pairs = re.findall(r"^```smq\n(.*?)^```\n\n```smq-replies\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)
        self.assertEqual(len(pairs), len(self.blocks("smq")))
        self.assertEqual(len(pairs), len(self.blocks("smq-replies")))
        self.assertGreater(len(pairs), 3)
        for asked, replies in pairs:
            peer = self.rig.connect()
            self.assertEqual(peer.ask(from_hex(asked)).hex(" "), from_hex(replies).hex(" "), asked)
            peer.drop()
        for asked, replies in pairs:
            peer = self.rig.connect()
            told = b"".join(peer.ask(bytes([byte])) for byte in from_hex(asked))
            self.assertEqual(told.hex(" "), from_hex(replies).hex(" "), asked)
            peer.drop()

    def test_types(self) -> None:
        """The table of types has every type there is, with its size."""
        rows = [row for row in self.rows("## Messages") if re.fullmatch("`[0-9a-f]`", row[0])]
        self.assertEqual([int(row[0].strip("`"), 16) for row in rows], list(range(wire.STR + 1)))
        peer = self.rig.connect()
        for kind in range(16):
            size = int(rows[kind][2].split()[0]) if kind < wire.STR else 0
            told = peer.ask(push(kind, 1 if kind < wire.STR else 0, bytes(size)))
            self.assertEqual(told, wire.PUSHED if kind < len(rows) else wire.REFUSED)

    def test_limits(self) -> None:
        """The defaults are those of the program."""
        rows = [row for row in self.rows("## Limits") if row[0].startswith("`")]
        self.assertGreater(len(rows), 4)
        for name, default, _ in rows:
            self.assertEqual(default, str(getattr(Limits(), name.strip("`"))), name)

    def test_configuration(self) -> None:
        """The tables of the example are ones that the daemon takes."""
        (block,) = self.blocks("toml")
        tables: list[dict[str, Any]] = tomllib.loads(block)["smq"]
        queues = [protocol.configure({key: table[key] for key in table if key != "endpoint"}).queue for table in tables]
        self.assertEqual(queues, ["orders", "invoices"])
        self.assertIn(f"`{protocol.SmqSettings().queue}` where nothing is said", self.text)

    def test_python(self) -> None:
        """The client in Python speaks to a real daemon."""
        (block,) = self.blocks("python")
        client: dict[str, Any] = {}
        exec(block, client)
        with Daemon(os.path.abspath(self.mktemp())) as daemon, daemon.connect("smq") as connection:
            self.assertIsNone(client["pull"](connection))
            self.assertTrue(client["push"](connection, b"one"))
            self.assertTrue(client["push"](connection, b"x" * 1_000_000))
            self.assertEqual(client["pull"](connection), (wire.U8, b"one"))
            self.assertEqual(client["pull"](connection), (wire.U8, b"x" * 1_000_000))
            self.assertIsNone(client["pull"](connection))

    def test_links(self) -> None:
        """What it points to is there."""
        for target in re.findall(r"\]\(([^)]+)\)", self.text):
            self.assertTrue((CHECKOUT / "docs" / "protocols" / target).exists(), target)
