"""Shell patterns: the same as those of `fnmatch`, and a step for each character of a name at most."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.patterns import any_matcher, matcher

PATTERNS = st.text("ab*?[]!-^\\é\n", max_size=12)
NAMES = st.text("abc*?[]!-^\\é\n", max_size=12)


class PatternTests(SynchronousTestCase):
    """One pattern, and several."""

    @settings(max_examples=2000)
    @given(PATTERNS, NAMES)
    def test_same(self, pattern: str, name: str) -> None:
        """Any pattern says of any name what `fnmatch` says."""
        self.assertEqual(matcher(pattern)(name), fnmatchcase(name, pattern))

    @settings(max_examples=500)
    @given(st.lists(PATTERNS, max_size=6), NAMES)
    def test_any(self, patterns: list[str], name: str) -> None:
        """Several are for a name where one of them is."""
        expected = any(fnmatchcase(name, pattern) for pattern in patterns)
        self.assertEqual(any_matcher(patterns)(name), expected)

    def test_usual(self) -> None:
        """What people write, each with names that it is for and names that it is not for."""
        for pattern, names, others in (
            ("orders", ["orders"], ["orders.", "order", "Orders", ""]),
            ("orders.*", ["orders.", "orders.eu"], ["orders", "my orders.eu"]),
            ("*.log", [".log", "a.log", "a.log.log"], ["a.logs", "log"]),
            ("a*b*c", ["abc", "a b c", "abbcc"], ["acb", "ab", "abcd"]),
            ("ab*ba", ["abba", "ab ba"], ["aba", "ab"]),
            ("*a*b*", ["ab", "xaxbx"], ["ba", ""]),
            ("shard-[0-3][!0]", ["shard-01", "shard-3x"], ["shard-41", "shard-00"]),
            ("a?c", ["abc", "a\nc"], ["ac", "abbc"]),
            ("[a", ["[a"], ["a"]),
            ("", [""], ["a"]),
        ):
            fits = matcher(pattern)
            self.assertEqual([name for name in (*names, *others) if fits(name)], names, pattern)

    def test_steps(self) -> None:
        """Every character of a name is looked at once, whatever the pattern: none of it is tried again."""

        class Counted(str):
            steps = 0

            def __iter__(self) -> Iterator[str]:
                for character in str.__iter__(self):
                    Counted.steps += 1
                    yield character

        name = Counted("a" * 250)
        patterns = ("*a?" * 80 + "b", "*" + "?" * 100 + "b*" + "?" * 50 + "c", "*[a-z]" * 40 + "#", "?" * 250 + "*")
        for pattern in patterns:
            Counted.steps = 0
            self.assertEqual(matcher(pattern)(name), pattern.endswith("*"))
            self.assertEqual(Counted.steps, len(name), pattern)

    def test_many_characters(self) -> None:
        """A pattern that meets ever new characters remembers some of them, and is right about all."""
        fits = matcher("?[!x]*")
        for number in range(0x4E00, 0x4E00 + 3000):
            self.assertTrue(fits(chr(number) * 2))
        self.assertFalse(fits("xx"))
