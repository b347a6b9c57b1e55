"""The table ``[fujin]`` and the tables of readers in it: what they mean, and what is wrong with them."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.interfaces import ConfigError
from streamd.protocols.fujin.settings import FujinSettings, ReaderSettings, configure


class SettingsTests(SynchronousTestCase):
    def test_readers(self) -> None:
        """A name is what its table says; one without a table is a topic."""
        settings = configure(
            {
                "start": "latest",
                "readers": {
                    "orders": {"group": "billing", "auto_commit": False},
                    "all": {"topic": "orders", "group": ""},
                },
            }
        )
        self.assertEqual(settings.reader("orders"), ReaderSettings("orders", "billing", False, "earliest"))
        self.assertEqual(settings.reader("all"), ReaderSettings("orders", "", True, "earliest"))
        self.assertEqual(settings.reader("other"), ReaderSettings("other", "fujin", True, "latest"))
        self.assertEqual([settings.meta_bytes(name) for name in ("orders", "all", "other")], [8, 0, 0])

    def test_groups(self) -> None:
        """The groups that readers acknowledge in are known: the default one, and each that a table names."""
        readers = {"a": {"group": "one"}, "b": {"group": ""}, "c": {}}
        self.assertEqual(configure({"readers": readers}).groups, {"fujin", "one"})

    def test_defaults(self) -> None:
        """An empty table is the same as none."""
        self.assertEqual(configure({}), FujinSettings())

    def test_wrong(self) -> None:
        """What is wrong is said with the key, and the reader."""
        for table, words in (
            ({"auto_crate": True}, "auto_crate: no such key; did you mean auto_create?"),
            ({"start": "middle"}, "start: expected one of earliest, latest"),
            ({"ping_seconds": 0}, "ping_seconds: 0.0 is below the least value"),
            ({"readers": 1}, "readers: expected a table, got 1"),
            ({"readers": {"a": 1}}, "readers.a: expected a table"),
            ({"readers": {"a": {"gruop": "x"}}}, "readers.a.gruop: no such key; did you mean group?"),
            ({"readers": {"a": {"auto_commit": "yes"}}}, "readers.a.auto_commit: expected true or false"),
            ({"readers": {"a": {"topic": "x\0"}}}, "readers.a.topic: a name has no control characters"),
            ({"readers": {"a": {"group": "x" * 256}}}, "readers.a.group: a name has 1 to 255 bytes"),
            ({"readers": {"faststream/x": {}}}, "readers.faststream/x.topic: behind"),
        ):
            stated: Any = table
            self.assertIn(words, str(self.assertRaises(ConfigError, configure, stated)), table)
