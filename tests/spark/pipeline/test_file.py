"""Files of pipelines: what is wrong with one is said with its line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.spark.pipeline.file import PipelineError, load
from tests.rigs.daemon import CHECKOUT
from tests.rigs.spark.pipeline import GOOD

# What only a source of topics has.
STREAMED = 'format = "json"\nschema = "a string"\n'

# What is put in place of what, and the line and the text of the error.
WRONG = [
    ("[pipeline]", "[pipelin]", 1, "pipelin: no such key; did you mean pipeline?"),
    ('name = "p"', "name = 1", 2, "pipeline.name: expected a string"),
    ('name = "p"', 'name = "a/b"', 2, "pipeline.name: 'a/b' can't be used: give letters, digits, dots"),
    ('checkpoint = "c"', "", 1, "pipeline: checkpoint is missing: give a string"),
    ('checkpoint = "c"', 'checkpoint = " "', 3, "pipeline.checkpoint: is empty"),
    ('checkpoint = "c"', 'checkpoint = "c"\nserver = "here"', 4, "pipeline.server: 'here' is no address"),
    (
        'checkpoint = "c"',
        'checkpoint = "c"\ntrigger = "soon"',
        4,
        "pipeline.trigger: 'soon' can't be used",
    ),
    ('checkpoint = "c"', 'checkpoint = "c"\nchekpoint = "d"', 4, "no such key; did you mean checkpoint?"),
    ('topic = "logs"', "", 5, "source[1]: give one of topic, topics, topic_pattern, parquet, csv and delta"),
    ('topic = "logs"', 'topics = ["a", 1]', 7, "source[1].topics: expected a string, got 1"),
    (
        'format = "json"',
        'format = "jsn"',
        8,
        'expected one of raw, text, json, csv, smq; got "jsn"; did you mean json?',
    ),
    ('schema = "a string"', "", 8, "source[1].format: json needs a schema"),
    ('format = "json"', "", 9, "source[1].schema: a schema is for json and csv, and the format is raw"),
    (
        'schema = "a string"',
        'schema = "a string"\n[source.watermark]\ncolumn = "a"\ndelay = "x"',
        12,
        "watermark.delay: 'x'",
    ),
    ('schema = "a string"', 'schema = "a string"\nwatermark = {delay = "1 day"}', 10, "watermark: column is missing"),
    ('schema = "a string"', 'schema = "a string"\noptions = {x = [1]}', 10, "options.x: expected a string, a number"),
    ('name = "v"', 'name = "LOGS"', 11, "'LOGS' is the name of another one, on line 5"),
    ("sql =", "sq =", 13, "view[1].sq: no such key; did you mean sql?"),
    ('view = "v"', 'view = "w"', 19, "sink[1].view: there is no source and no view 'w'"),
    ('topic = "out"', "", 18, "sink[1]: give one of topic, parquet, delta and console = true"),
    ('topic = "out"', 'topic = "out"\nmode = "complete"', 21, "sink[1].mode: a topic can't be replaced"),
    ('topic = "out"', 'parquet = "out"\nmode = "update"', 21, "sink[1].mode: to Parquet and Delta, rows are appended"),
    ("[[sink]]", "[[snk]]", 18, "snk: no such key; did you mean sink?"),
    (GOOD[GOOD.index("[[sink]]") :], "", 1, "there is no [[sink]]: a pipeline has one at least"),
    ("[[view]]", "[view]", 11, "view: expected tables, written as [[view]]"),
    ("sql = '''", "sql = ''", 14, "not valid TOML"),
    ("[[sink]]", "[[sink]", 18, "not valid TOML"),
]


class FileTests(SynchronousTestCase):
    def load(self, text: str) -> Any:
        self.path = Path(self.mktemp())
        self.path.write_text(text)
        return load(str(self.path))

    def test_good(self) -> None:
        """What is left out has its default."""
        pipeline = self.load(GOOD)
        self.assertEqual((pipeline.server, pipeline.trigger, pipeline.path), ("127.0.0.1:12345", "10 seconds", None))
        (sink,) = pipeline.sinks
        self.assertEqual((sink.name, sink.format, sink.mode), ("v", "json", "append"))

    def test_wrong(self) -> None:
        """Each error names the line, and says what would be right."""
        for old, new, line, text in WRONG:
            self.assertIn(old, GOOD)
            error = str(self.assertRaises(PipelineError, self.load, GOOD.replace(old, new, 1)))
            self.assertTrue(error.startswith(f"{self.path}:{line}: "), f"{new}: {error}")
            self.assertIn(text, error)

    def test_no_file(self) -> None:
        """A file that can't be read is told of too."""
        self.assertIn("No such file", str(self.assertRaises(PipelineError, load, "nowhere.toml")))
        self.path = Path(self.mktemp())
        self.path.write_bytes(b"\xff")
        self.assertIn("not UTF-8 at byte 0", str(self.assertRaises(PipelineError, load, str(self.path))))

    def test_settings(self) -> None:
        """Settings of Spark may be written with quotes and without."""
        more = '[spark]\n"spark.a.b" = 1\nspark.c = true\n'
        self.assertEqual(self.load(GOOD + more).spark, {"spark.a.b": "1", "spark.c": "true"})

    def test_documented(self) -> None:
        """The file on the page is one."""
        text = (CHECKOUT / "docs" / "pipelines.md").read_text(encoding="utf-8")
        (example,) = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        self.assertEqual(self.load(example).name, "big-orders")

    def test_static(self) -> None:
        """Tables that do not change need no topic; what makes no sense for them is refused."""
        (source,) = self.load(GOOD.replace('topic = "logs"', 'parquet = "p"', 1).replace(STREAMED, "", 1)).sources
        self.assertEqual((source.where, source.static), ({}, ("parquet", "p")))
        for text in ('csv = "x"', 'delta = "x"\nschema = "a int"', 'parquet = "x"\nstart = "latest"'):
            wrong = GOOD.replace('topic = "logs"', text, 1).replace(STREAMED, "", 1)
            self.assertRaises(PipelineError, self.load, wrong)
