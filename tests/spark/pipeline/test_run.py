"""Pipelines: files with errors on their lines, formats, and the examples, from telnet to the resulting topic."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from twisted.internet.defer import Deferred

from streamd.spark.pipeline.file import PipelineError, load
from streamd.spark.pipeline.run import QueryFailed, check
from tests.rigs.spark.pipeline import EXAMPLES, GOOD, PipelineCase
from tests.rigs.spark.session import spark

# The same for what only Spark knows.
WRONG_SQL = [
    ("FROM logs", "FRM logs", 15, "view v: [PARSE_SYNTAX_ERROR]"),
    ("FROM logs", "FROM lgs", 15, "view v: [TABLE_OR_VIEW_NOT_FOUND]"),
    ("SELECT a", "SELECT a,\n  b", 15, "view v: [UNRESOLVED_COLUMN"),
    ('schema = "a string"', 'schema = "a strng"', 9, "[UNSUPPORTED_DATATYPE]"),
    ('topic = "out"', 'topic = "out"\nformat = "text"', 18, "v has no column value"),
]


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

    def test_running_totals(self) -> Deferred[None]:
        """Changed rows go to a topic once, over restarts; joined with tables, to Delta; read and written are apart."""
        return self.do(self._running_totals)

    def _running_totals(self) -> None:
        spark().sql("SELECT 'a' AS name, 'Alice' AS full").write.parquet(f"{self.directory}/names")
        write_deltalake(str(self.directory / "factors"), pa.table({"name": ["a", "b"], "factor": [10, 100]}))
        (self.directory / "cities.csv").write_text("a;Aachen\n")
        path = self.directory / "totals.toml"
        path.write_text(TOTALS.format(port=self.daemon.port("pravega"), directory=self.directory))
        self.telnet("sales", {"name": "a", "n": 1}, {"name": "b", "n": 2}, {"name": "a", "n": 3})
        progress = {each.sink: each for each in self.once(path)}
        self.assertEqual((progress["totals"].rows, progress["totals"].written, progress["totals"].lag), (3, 2, 0))
        self.telnet("sales", {"name": "b", "n": 5})
        self.once(path)
        self.once(path)
        found = sorted((row["name"], row["total"]) for row in self.objects("sales.totals"))
        self.assertEqual(found, [("a", 4), ("b", 2), ("b", 7)])
        rows = pa.table(DeltaTable(str(self.directory / "rich")).to_pyarrow_table()).to_pylist()
        rows = sorted((row["full"], row["city"], row["n"]) for row in rows)
        self.assertEqual(rows, [("Alice", "Aachen", 10), ("Alice", "Aachen", 30)])

    def test_failed(self) -> Deferred[None]:
        """A query that fails ends the pipeline, with the reason."""
        return self.do(self._failed)

    def _failed(self) -> None:
        path = self.directory / "p.toml"
        text = GOOD.replace('"c"', f'"{self.directory}/c"\nserver = "127.0.0.1:{self.daemon.port("pravega")}"', 1)
        path.write_text(text)
        error = self.assertRaises(QueryFailed, self.once, path)
        self.assertIn("there is no topic 'logs'", str(error))


TOTALS = """\
[pipeline]
name = "totals"
server = "127.0.0.1:{port}"
checkpoint = "{directory}/checkpoint"

[[source]]
name = "sales"
topic = "sales"
format = "json"
schema = "name string, n int"

[[source]]
name = "names"
parquet = "{directory}/names"

[[source]]
name = "factors"
delta = "{directory}/factors"

[[source]]
name = "cities"
csv = "{directory}/cities.csv"
schema = "name string, city string"
parse = {{ sep = ";" }}

[[view]]
name = "totals"
sql = "SELECT name, sum(n) AS total FROM sales GROUP BY name"

[[view]]
name = "rich"
sql = '''
SELECT full, city, n * factor AS n, record_timestamp
FROM sales JOIN names USING (name) JOIN factors USING (name) JOIN cities USING (name)
'''

[[sink]]
view = "totals"
topic = "sales.totals"
mode = "update"

[[sink]]
view = "rich"
delta = "{directory}/rich"
"""

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
