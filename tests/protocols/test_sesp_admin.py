"""What an administrator asks at the prompt, and what can be set."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from streamd import __version__
from streamd.interfaces import ConfigError
from streamd.protocols import sesp
from streamd.settings import RetentionRule
from streamd.store.retention import Retention
from tests.rigs.protocols.sesp_case import SespCase


class AdminTests(SespCase):
    """What the administrator asks at the prompt is answered on one line."""

    def test_list(self) -> None:
        """``?`` is a JSON array of names, in the order of creation."""
        self.talk("→?", "+[]")
        self.topic("b")
        self.topic("a")
        self.topic('grüße "🌍"')
        self.talk("→?", '+["b", "a", "grüße \\"🌍\\""]')

    def test_list_many(self) -> None:
        """Also of many topics, around the size of a piece: one array on one line."""
        made = 0
        for count in (1999, 2000, 2001, 4000, 6001):
            lines = "".join(f"#topic {number}\n" for number in range(made, count))
            self.assertEqual(self.peer.ask(lines.encode()), b"+\n" * (count - made))
            made = count
            self.assertEqual(self.told("?"), [f"topic {number}" for number in range(count)])
        # What is asked behind it is answered behind it.
        self.assertTrue(self.peer.ask(b"?\n$1\n?none\n").endswith(b'"topic 6000"]\n+\n-NoSuchTopicExists\n'))

    def test_list_slow(self) -> None:
        """Pieces of a long list wait for a peer that does not take them, and still make one line."""
        count = 20_000
        self.peer.ask("".join(f"#topic {number}\n" for number in range(count)).encode())
        self.peer.wire.slow = True
        self.peer.send(b"?\n$1\n")
        self.assertLess(len(self.peer.wire.value()), 200_000)
        answer, *rest = self.peer.take_all().split(b"\n")
        self.assertEqual(json.loads(answer[1:]), [f"topic {number}" for number in range(count)])
        self.assertEqual(rest, [b"+", b""])

    def test_describe(self) -> None:
        """``?NAME`` is a JSON object, whose figures follow what happens to the topic."""
        self.topic("a")
        empty = {
            "messages": 0,
            "first_offset": 0,
            "next_offset": 0,
            "bytes": 0,
            "sealed": False,
            "created": "2023-11-14T22:13:20.000001+00:00",
            "writers": 0,
            "groups": {},
            "retention": None,
        }
        self.assertEqual(self.told("?a"), empty)
        self.talk("→@a", "+", "→>12345", "+", "→>678", "+")
        full = {**empty, "messages": 2, "next_offset": 2, "bytes": 8 + 2 * 8}
        self.assertEqual(self.told("?a"), full)
        self.talk("→%1", "+", "→=a", "+")
        cut = {**full, "messages": 1, "first_offset": 1, "bytes": 3 + 8, "sealed": True}
        self.assertEqual(self.told("?a"), cut)
        segment = self.rig.store.find("a")
        self.rig.store.set_group(segment, "readers", 1)
        self.rig.run()
        group: dict[str, object] = {"position": 1, "lag": 1, "ranges": 0, "outstanding": 0, "members": 0}
        group |= {"waiting": 0, "redeliveries": 0, "dead_letters": 0, "rule": None}
        self.assertEqual(self.told("?a"), {**cut, "groups": {"readers": group}})
        self.talk("→?b", "-NoSuchTopicExists")

    def test_describe_retention(self) -> None:
        """The first rule that fits the name is shown with all its keys; null where none does."""
        self.topic("a1")
        self.topic("b")
        rules = [RetentionRule(pattern="a*", bytes_max=7), RetentionRule(pattern="a1", records_max=1)]
        self.rig.store.retention = Retention(
            self.rig.store, rules, interval_seconds=1, hidden_seconds_max=0, clock=self.rig.clock, now=lambda: 0
        )
        limits = {"pattern": "a*", "bytes_max": 7, "records_max": 0, "age_seconds_max": 0.0, "idle_seconds_max": 0.0}
        rule = {**limits, "archived_only": False, "archive_group": "archive"}
        self.assertEqual(self.told("?a1")["retention"], rule)
        self.assertEqual(self.told("?b")["retention"], None)

    def test_truncate(self) -> None:
        """``%N`` drops the messages before N: none where N is before the first, all where it is behind the last."""
        self.topic("a", *map(str, range(10)))
        self.talk("→@a", "+")
        firsts = {"0": 0, "3": 3, "2": 3, "-0": 3, "9": 9, "10": 10, "11": 10, str((1 << 63) - 1): 10}
        for number, first in firsts.items():
            self.talk(f"→%{number}", "+")
            told = self.told("?a")
            self.assertEqual((told["first_offset"], told["messages"]), (first, 10 - first))
        self.talk("→%-1", "-ReadOffsetCanNotBeNegative", f"→%{1 << 63}", "-InvalidData", "→%", "-InvalidData")
        self.talk("→>10", "+", "→$10", "+", "→<", "+10")

    def test_truncate_own_writes(self) -> None:
        """It sees what was written before it in the same segment, and not what comes behind."""
        self.assertEqual(self.peer.ask(b"#a\n@a\n>0\n>1\n>2\n%2\n>3\n$2\n<\n<\n<\n"), b"+\n" * 8 + b"+2\n+3\n-None\n")

    def test_status(self) -> None:
        """``&`` is a JSON object with the daemon's state."""
        self.topic("a", "x")
        self.rig.advance(90)
        told = self.told("&")
        self.assertEqual(told["version"], __version__)
        self.assertEqual(told["uptime"], 90)
        self.assertEqual(told["connections"], 1)
        self.assertEqual(told["sync"], "always")
        self.assertEqual(told["store"]["topics"], 1)
        self.assertEqual(told["store"]["pending_bytes"], 0)
        self.assertEqual(told["store"]["read_only"], False)
        self.rig.connect()
        self.assertEqual(self.told("&")["connections"], 2)


class FactoryTests(SynchronousTestCase):
    def test_settings(self) -> None:
        """SESP has no settings of its own: any key is an error that names it."""
        sesp.configure({})
        error = self.assertRaises(ConfigError, sesp.configure, {"colour": "red"})
        self.assertIn("colour", str(error))
