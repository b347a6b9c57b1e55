"""Pipelines: files with errors on their lines, formats, and the examples, from telnet to the resulting topic."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from streamd.spark.pipeline.file import PipelineError, load
from streamd.spark.pipeline.run import Progress, QueryFailed, Running, check, lag_of
from tests.daemon import CHECKOUT
from tests.sesp_client import Sesp
from tests.spark.session import SparkCase, spark

EXAMPLES = CHECKOUT / "etc" / "pipelines"

GOOD = """\
[pipeline]
name = "p"
checkpoint = "c"

[[source]]
name = "logs"
topic = "logs"
format = "json"
schema = "a string"

[[view]]
name = "v"
sql = '''
SELECT a
FROM logs
'''

[[sink]]
view = "v"
topic = "out"
"""

# What is put in place of what, and the line and the text of the error.
WRONG = [
    ("[pipeline]", "[pipelin]", 1, "pipeline is missing: give a table"),
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
    ('topic = "logs"', "", 5, "source[1]: give one of topic, topics and topic_pattern"),
    ('topic = "logs"', 'topics = ["a", 1]', 7, "source[1].topics: expected a list of strings"),
    (
        'format = "json"',
        'format = "jsn"',
        8,
        "csv, smq; did you mean json?",
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
    ("sql =", "sq =", 11, "view[1]: sql is missing"),
    ('view = "v"', 'view = "w"', 19, "sink[1].view: there is no source and no view 'w'"),
    ('topic = "out"', "", 18, "sink[1]: give one of topic, parquet and console = true"),
    ('topic = "out"', 'topic = "out"\nmode = "complete"', 21, "sink[1].mode: a topic can't be replaced"),
    ('topic = "out"', 'parquet = "out"\nmode = "update"', 21, "sink[1].mode: to Parquet, rows are appended"),
    ("[[sink]]", "[[snk]]", 1, "there is no [[sink]]: a pipeline has one at least"),
    ("[[view]]", "[view]", 11, "view: expected a list"),
    ("sql = '''", "sql = ''", 14, "not valid TOML"),
    ("[[sink]]", "[[sink]", 18, "not valid TOML"),
]

# The same for what only Spark knows.
WRONG_SQL = [
    ("FROM logs", "FRM logs", 15, "view v: [PARSE_SYNTAX_ERROR]"),
    ("FROM logs", "FROM lgs", 15, "view v: [TABLE_OR_VIEW_NOT_FOUND]"),
    ("SELECT a", "SELECT a,\n  b", 15, "view v: [UNRESOLVED_COLUMN"),
    ('schema = "a string"', 'schema = "a strng"', 9, "[UNSUPPORTED_DATATYPE]"),
    ('topic = "out"', 'topic = "out"\nformat = "text"', 18, "v has no column value"),
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

    def test_lag(self) -> None:
        """Lag is what lies between two offsets, over all topics; of a source that is not ours nothing is known."""
        latest, end = ({"topics": {"a": {"next": a}, "b": {"next": b}}} for a, b in ((10, 7), (4, 7)))
        self.assertEqual(lag_of(json.dumps(latest), json.dumps(end)), 6)
        self.assertEqual(lag_of(None, "{}"), 0)


class PipelineCase(SparkCase):
    """A daemon, and pipelines on it."""

    def example(self, name: str) -> Path:
        """An example, as it is but for where it finds the daemon and puts its checkpoint."""
        text = (EXAMPLES / f"{name}.toml").read_text(encoding="utf-8")
        self.assertIn('"127.0.0.1:12345"', text)
        text = text.replace("127.0.0.1:12345", f"127.0.0.1:{self.daemon.port('pravega')}")
        path = self.directory / f"{name}.toml"
        path.write_text(text.replace('checkpoint = "', f'checkpoint = "{self.directory}/'))
        return path

    def telnet(self, topic: str, *messages: object) -> None:
        """Publish as somebody does who types."""
        lines = [
            f"#{topic}",
            f"@{topic}",
            *(f">{each if isinstance(each, str) else json.dumps(each)}" for each in messages),
        ]
        with self.daemon.connect() as connection, connection.makefile("rwb") as stream:
            stream.write("".join(f"{line}\r\n" for line in lines).encode())
            stream.flush()
            replies = [stream.readline() for _ in lines]
        self.assertIn(replies[0], (b"+\n", b"-AlreadyExists\n"))
        self.assertEqual(replies[1:], [b"+\n"] * (len(lines) - 1))

    def topic(self, name: str) -> list[str]:
        """All messages of a topic."""
        with Sesp(self.daemon) as sesp:
            return [data.decode() for data in sesp.read_while_it_goes(name).values()]

    def objects(self, name: str) -> list[Any]:
        return [json.loads(each) for each in self.topic(name)]

    def once(self, file: Path) -> list[Progress]:
        """Run a pipeline over what is there now."""
        pipeline = load(str(file))
        with configured(pipeline.spark):
            running = Running(spark(), pipeline)
            try:
                running.start(once=True)
                return list(running.follow(Event()))
            finally:
                running.stop()


@contextmanager
def configured(settings: Any) -> Iterator[None]:
    """Settings of the session that all tests share, for a while."""
    before = {key: spark().conf.get(key) or "" for key in settings}
    for key, value in settings.items():
        spark().conf.set(key, value)
    yield
    for key, value in before.items():
        spark().conf.set(key, value)


class SparkTests(PipelineCase):
    def test_wrong_sql(self) -> Deferred[None]:
        """What Spark refuses is told with the line of the file, inside the SQL too; and of the examples nothing is."""
        return self.do(self._wrong_sql)

    def _wrong_sql(self) -> None:
        path = self.directory / "p.toml"
        for old, new, line, text in WRONG_SQL:
            path.write_text(GOOD.replace(old, new, 1))
            error = str(self.assertRaises(PipelineError, check, spark(), load(str(path))))
            self.assertTrue(error.startswith(f"{path}:{line}: "), f"{new}: {error}")
            self.assertIn(text, error)
        found = sorted(EXAMPLES.glob("*.toml"))
        self.assertEqual([each.stem for each in found], ["dead-letters", "errors-per-minute", "sessions"])
        for each in found:
            self.assertTrue(check(spark(), load(str(each))))

    def test_formats(self) -> Deferred[None]:
        """Raw, text, CSV and the types of Simple Message Queue come in; JSON, CSV, text and Parquet go out."""
        return self.do(self._formats)

    def _formats(self) -> None:
        self.telnet("table", "1;one", "x;two", "3")
        with self.daemon.connect("smq") as connection, connection.makefile("rwb") as queue:
            for body in ("02 00000002 00000007 ffffffff", "08 00000001 3fc00000", "0a 00000002 6100 6200"):
                data = bytes.fromhex(body)
                queue.write(b"\0" + len(data).to_bytes(8, "big") + data)
                queue.flush()
                self.assertEqual(queue.read(9), bytes(9))
        path = self.directory / "formats.toml"
        path.write_text(FORMATS.format(port=self.daemon.port("pravega"), directory=self.directory))
        progress = self.once(path)
        self.assertEqual(
            {(each.sink, each.rows, each.lag) for each in progress} & {("csv_out", 3, 0)}, {("csv_out", 3, 0)}
        )
        self.assertEqual(self.topic("csv.out"), ["1,one,", ",two,x;two", "3,,3"])
        self.assertEqual(self.topic("text.out"), ["1;ONE", "X;TWO", "3"])
        self.assertEqual(
            self.objects("smq.out"),
            [
                {"type": "U32", "integers": [7, 4294967295], "total": 4294967302.0},
                {"type": "F32", "total": 1.5},
                {"type": "Str", "strings": ["a", "b"]},
            ],
        )
        rows = spark().read.parquet(f"{self.directory}/raw").orderBy("offset").collect()
        self.assertEqual([(row.offset, bytes(row.value)) for row in rows], [(0, b"1;one"), (1, b"x;two"), (2, b"3")])

    def test_failed(self) -> Deferred[None]:
        """A query that fails ends the pipeline, with the reason."""
        return self.do(self._failed)

    def _failed(self) -> None:
        path = self.directory / "p.toml"
        text = GOOD.replace('"c"', f'"{self.directory}/c"\nserver = "127.0.0.1:{self.daemon.port("pravega")}"', 1)
        path.write_text(text)
        error = self.assertRaises(QueryFailed, self.once, path)
        self.assertIn("there is no topic 'logs'", str(error))


FORMATS = """\
[pipeline]
name = "formats"
server = "127.0.0.1:{port}"
checkpoint = "{directory}/checkpoint"

[[source]]
name = "raws"
topic = "table"

[[source]]
name = "texts"
topic = "table"
format = "text"

[[source]]
name = "csvs"
topics = ["table"]
format = "csv"
schema = "number int, word string"
parse = {{ sep = ";" }}

[[source]]
name = "smqs"
topic_pattern = "s.q"
format = "smq"
start = "earliest"

[[view]]
name = "csv_out"
sql = "SELECT number, word, corrupt FROM csvs"

[[view]]
name = "text_out"
sql = "SELECT upper(value) AS value FROM texts"

[[view]]
name = "smq_out"
sql = "SELECT type, integers, strings, reduce(numbers, 0d, (a, b) -> a + b) AS total FROM smqs"

[[sink]]
view = "csv_out"
topic = "csv.out"
format = "csv"

[[sink]]
view = "text_out"
topic = "text.out"
format = "text"

[[sink]]
view = "smq_out"
topic = "smq.out"

[[sink]]
view = "raws"
parquet = "{directory}/raw"
partition_by = ["topic"]
"""


class ExampleTests(PipelineCase):
    def test_errors_per_minute(self) -> Deferred[None]:
        """Errors are counted by minute and service, when the minute is over, in as many runs as one likes."""
        return self.do(self._errors_per_minute)

    def _errors_per_minute(self) -> None:
        file = self.example("errors-per-minute")

        def log(time: str, level: str, service: str | None, message: str) -> dict[str, str | None]:
            return {"time": f"2026-11-16T{time}Z", "level": level, "service": service, "message": message}

        self.telnet(
            "logs",
            log("10:00:07", "ERROR", "shop", "no stock"),
            log("10:00:08", "INFO", "shop", "sold"),
            log("10:00:59", "error", "shop", "no stock"),
            "this is no JSON",
            log("10:01:00", "FATAL", None, "gone"),
        )
        self.once(file)
        self.telnet("logs", log("10:00:30", "ERROR", "shop", "late"), log("10:09:00", "INFO", "shop", "much later"))
        self.once(file)
        self.assertEqual(
            sorted(self.objects("logs.errors-per-minute"), key=lambda row: row["minute"]),
            [
                {"minute": "2026-11-16T10:00:00.000Z", "service": "shop", "errors": 3, "example": "no stock"},
                {"minute": "2026-11-16T10:01:00.000Z", "service": "unknown", "errors": 1, "example": "gone"},
            ],
        )

    def test_sessions(self) -> Deferred[None]:
        """A visitor's clicks are one record when he has been away for half an hour; who may be there still is not."""
        return self.do(self._sessions)

    def _sessions(self) -> None:
        file = self.example("sessions")

        def click(time: str, visitor: str, page: str) -> dict[str, str]:
            return {"time": f"2026-11-16T{time}Z", "visitor": visitor, "page": page}

        self.telnet(
            "clicks", click("10:00:00", "v1", "/"), click("10:01:35", "v1", "/pay"), click("10:00:30", "v1", "/cart")
        )
        self.once(file)
        self.telnet(
            "clicks", click("10:10:00", "v2", "/"), click("11:00:00", "v1", "/again"), click("12:00:00", "v3", "/")
        )
        self.once(file)
        self.assertEqual(
            sorted(self.objects("clicks.sessions"), key=lambda row: row["begin"]),
            [
                {
                    "visitor": "v1",
                    "begin": "2026-11-16T10:00:00.000Z",
                    "seconds": 95,
                    "clicks": 3,
                    "pages": ["/", "/cart", "/pay"],
                },
                {"visitor": "v2", "begin": "2026-11-16T10:10:00.000Z", "seconds": 0, "clicks": 1, "pages": ["/"]},
                {"visitor": "v1", "begin": "2026-11-16T11:00:00.000Z", "seconds": 0, "clicks": 1, "pages": ["/again"]},
            ],
        )
