"""Errors of clients: as the page of the client has them."""

from __future__ import annotations

import re

from twisted.trial.unittest import SynchronousTestCase

from streamd import client
from streamd.client import ClientError, Refused
from tests.rigs.daemon import CHECKOUT


class ErrorTests(SynchronousTestCase):
    def test_page(self) -> None:
        """Each error of the package is in the table of the page, as what it is a kind of."""
        page = (CHECKOUT / "docs" / "client.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| `(\w+)` \| (?:an? `(\w+)`: )?", page.partition("## Errors")[2], re.MULTILINE)
        exported = [getattr(client, name) for name in client.__all__]
        errors = {kind for kind in exported if isinstance(kind, type) and issubclass(kind, ClientError)}
        self.assertEqual({getattr(client, name) for name, _ in rows}, errors)
        for name, parent in rows:
            if parent:
                self.assertEqual(getattr(client, name).__bases__, (getattr(client, parent),))

    def test_refused(self) -> None:
        """A refusal has the daemon's word, a text, and how many requests it is about."""
        error = Refused("NoSuchTopic")
        self.assertEqual((error.reason, str(error), error.count), ("NoSuchTopic", "NoSuchTopic", 1))
        error = Refused("TopicSealed", "2 messages were not published", 2)
        self.assertEqual((error.reason, str(error), error.count), ("TopicSealed", "2 messages were not published", 2))
