"""Connections of SESP without sockets, and what is said on them."""

from __future__ import annotations

import json
import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.settings import Limits
from streamd.store import Segment
from tests.rigs.protocols.rig import Peer, Rig

LIMITS = Limits(line_bytes_max=64 << 10)


class SespCase(SynchronousTestCase):
    """Connections to a store of the test's own."""

    def setUp(self) -> None:
        self.rig = Rig(os.path.abspath(self.mktemp()), limits=LIMITS)
        self.addCleanup(self.rig.close)
        self.peer = self.rig.connect()

    def talk(self, *lines: str, peer: Peer | None = None) -> None:
        """Each line that begins with ``→`` is sent; the ones behind it are the answer, to the byte."""
        peer = peer or self.peer
        asked, expected = "", ""
        for line in [*lines, "→"]:
            if line.startswith("→"):
                if asked:
                    self.assertEqual(peer.ask(asked.encode()), expected.encode(), asked)
                asked, expected = line[1:] + "\n", ""
            else:
                expected += line + "\n"

    def at_once(self, *lines: str, end: bytes = b"\n") -> None:
        """The same conversation, all of it sent in one segment."""
        asked = b"".join(line[1:].encode() + end for line in lines if line.startswith("→"))
        expected = "".join(line + "\n" for line in lines if not line.startswith("→"))
        self.assertEqual(self.peer.ask(asked).decode(), expected)

    def topic(self, name: str, *messages: str) -> Segment:
        """A topic with these messages, made by somebody else."""
        other = self.rig.connect()
        sent = "".join(f"{line}\n" for line in (f"#{name}", f"@{name}", *(f">{each}" for each in messages)))
        self.assertEqual(other.ask(sent.encode()), b"+\n" * (2 + len(messages)))
        other.drop()
        return self.rig.store.find(name)

    def told(self, line: str, peer: Peer | None = None) -> Any:
        """The JSON value in the answer to a line, which is one line."""
        answer = (peer or self.peer).ask(line.encode() + b"\n")
        self.assertTrue(answer.startswith(b"+") and answer.count(b"\n") == 1 and answer.endswith(b"\n"), answer)
        return json.loads(answer[1:])
