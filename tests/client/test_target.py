"""Options of clients: as the page of the client has them."""

from __future__ import annotations

import re
from dataclasses import fields

from twisted.trial.unittest import SynchronousTestCase

from streamd.client.address import parse_address
from streamd.client.target import Options, Target
from tests.rigs.daemon import CHECKOUT

UNITS = {"": 1, " MiB": 1 << 20}


class TargetTests(SynchronousTestCase):
    def test_page(self) -> None:
        """Each option is in the table of the page, with its default, and the page has no other."""
        page = (CHECKOUT / "docs" / "client.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| `(\w+)` \| (none|(\d+)( MiB)?) \|", page, re.MULTILINE)
        stated = {name: None if text == "none" else int(number) * UNITS[unit] for name, text, number, unit in rows}
        target = Target(parse_address("unix:x"))
        self.assertEqual(stated, {name: getattr(target, name) for name in Options.__annotations__})
        self.assertEqual(["address", *stated], [field.name for field in fields(target)])
