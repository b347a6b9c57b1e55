"""Where keys stand in a TOML file."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from streamd.toml_lines import Lines

TEXT = '''# a comment
title = "x"

[view]
one.sql = "select 1"   # dotted
"quoted key" = [
    1,
    2,
]

[[sink]]
topic = "a"

[[sink]]   # the second
topic = "b"
inline = { deep = { deeper = 1 }, other = 2 }

[view.two]
sql = """
select
  'line = 3'
"""
last = \'\'\'at once
and more\'\'\'
'''


class LinesTests(SynchronousTestCase):
    def test_every_key(self) -> None:
        """Tables, dotted and quoted keys, arrays of tables and what is inside of values are found where they stand."""
        lines = Lines(TEXT)
        for line, *path in (
            (2, "title"),
            (4, "view"),
            (5, "view", "one", "sql"),
            (6, "view", "quoted key"),
            (6, "view", "quoted key", 1),
            (11, "sink", 0),
            (12, "sink", 0, "topic"),
            (14, "sink", 1),
            (15, "sink", 1, "topic"),
            (16, "sink", 1, "inline", "deep", "deeper"),
            (18, "view", "two"),
            (19, "view", "two", "sql"),
            (23, "view", "two", "last"),
        ):
            self.assertEqual(lines.line(*path), line, path)

    def test_missing(self) -> None:
        """What does not stand there is looked for in the table that it would be in."""
        lines = Lines(TEXT)
        self.assertEqual(lines.line("sink", 1, "group"), 14)
        self.assertEqual(lines.line("nothing"), 1)
        self.assertEqual(Lines("").line("a"), 1)

    def test_text(self) -> None:
        """The text of a string begins below quotes that stand alone."""
        lines = Lines(TEXT)
        self.assertEqual(lines.text("view", "two", "sql"), 20)
        self.assertEqual(lines.text("view", "two", "last"), 23)
        self.assertEqual(lines.text("view", "one", "sql"), 5)

    def test_line_ends(self) -> None:
        """Lines that end as on Windows are the same lines."""
        lines = Lines(TEXT.replace("\n", "\r\n"))
        self.assertEqual((lines.line("sink", 1, "topic"), lines.text("view", "two", "sql")), (15, 20))
