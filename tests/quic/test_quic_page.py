"""docs/quic.md tells what is."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

import streamd.quic
from streamd.quic.endpoint import parse_settings
from streamd.quic.interfaces import IQuicConnection, IQuicStream
from streamd.quic.settings import QuicSettings
from tests.rigs.daemon import CHECKOUT


class PageTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.text = (CHECKOUT / "docs" / "quic.md").read_text(encoding="utf-8")

    def test_settings(self) -> None:
        """It has each setting with its default, and the argument that sets it."""
        rows = re.findall(r"^\| `(\w+)` \| `(\w+)[^|]* \| (\S+) \|", self.text, re.MULTILINE)
        wanted: list[tuple[str, Any]] = [(each.name, each.default) for each in fields(QuicSettings)]
        self.assertEqual([(name, default) for name, _, default in rows], [(n, str(d or "none")) for n, d in wanted])
        for name, argument, default in rows:
            if name != "alpn":
                self.assertEqual(parse_settings({argument: default}), QuicSettings(), argument)
        self.assertEqual(parse_settings({"alpn": "a,b"}).alpn, ("a", "b"))

    def test_names(self) -> None:
        """It names all that a stream and a connection can do beside what every transport can."""
        for interface in (IQuicStream, IQuicConnection):
            for name in interface.names():
                self.assertIn(name, self.text)

    def test_modules(self) -> None:
        """The table in the package's docstring has a line for each module."""
        told = set(
            re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", str(streamd.quic.__doc__), re.MULTILINE)))
        )
        there = {each.stem for each in (CHECKOUT / "streamd" / "quic").glob("[a-z]*.py")}
        self.assertEqual(told, there)

    def test_independent(self) -> None:
        """As the page says, it knows the certificate and one interface of streamd; one module knows the library."""
        known = ("streamd.quic.", "streamd.tls.server_certificate", "streamd.interfaces")
        for module in (CHECKOUT / "streamd" / "quic").glob("*.py"):
            imported = re.findall(r"^\s*(?:from|import) ([\w.]+)", module.read_text(encoding="utf-8"), re.MULTILINE)
            for name in imported:
                self.assertTrue(not name.startswith("streamd") or name.startswith(known), module.name)
                self.assertTrue(not name.startswith("aioquic") or module.name == "library.py", module.name)
