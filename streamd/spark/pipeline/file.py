"""A pipeline's file, in TOML: sources, views in SQL, sinks; checked as far as that is possible without Spark.

Every error names the file and the line, and says what would be right.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

from streamd.spark.options import check_server_address
from streamd.toml_lines import Lines

FORMATS: Final = ("raw", "text", "json", "csv", "smq")
SINK_FORMATS: Final = ("json", "csv", "text")
MODES: Final = ("append", "update", "complete")
SERVER: Final = "127.0.0.1:12345"
TRIGGER: Final = "10 seconds"

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIPELINE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_DURATION: Final = re.compile(r"[0-9]+ (millisecond|second|minute|hour|day|week)s?")
_KINDS: Final[dict[type, str]] = {str: "a string", dict: "a table", list: "a list", bool: "true or false"}

T = TypeVar("T")


class PipelineError(Exception):
    """What is wrong with a pipeline, with file and line."""


@dataclass(frozen=True)
class Watermark:
    """How late records may come."""

    column: str
    delay: str


@dataclass(frozen=True)
class Source:
    """Topics that become a view."""

    name: str
    where: Mapping[str, str]
    """The one of topic, topics and topicPattern that was given."""
    format: str
    schema: str | None
    parse: Mapping[str, str]
    watermark: Watermark | None
    options: Mapping[str, str]


@dataclass(frozen=True)
class View:
    """A view in SQL, over sources and the views before it."""

    name: str
    sql: str


@dataclass(frozen=True)
class Sink:
    """Where the rows of a view go."""

    name: str
    view: str
    topic: str | None
    parquet: str | None
    format: str
    mode: str
    partition_by: tuple[str, ...]


@dataclass(frozen=True)
class Pipeline:
    """A checked file."""

    file: str
    lines: Lines
    name: str
    server: str
    path: str | None
    checkpoint: str
    trigger: str
    spark: Mapping[str, str]
    sources: tuple[Source, ...]
    views: tuple[View, ...]
    sinks: tuple[Sink, ...]

    def error(self, text: str, *path: str | int) -> PipelineError:
        """An error at a key."""
        return PipelineError(f"{self.file}:{self.lines.line(*path)}: {text}")

    def error_in_sql(self, text: str, view: int, line: int) -> PipelineError:
        """An error in a line of the SQL of a view; lines count from 1."""
        return PipelineError(f"{self.file}:{self.lines.text('view', view, 'sql') + line - 1}: {text}")


def load(file: str) -> Pipeline:
    """Read and check a file; PipelineError."""
    try:
        text = Path(file).read_bytes().decode()
    except OSError as error:
        raise PipelineError(f"{file}: {error.strerror}")
    except UnicodeDecodeError as error:
        raise PipelineError(f"{file}: not UTF-8 at byte {error.start}")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise PipelineError(f"{file}:{line}: not valid TOML: {str(error)[: found.start() if found else None]}")
    except RecursionError:
        raise PipelineError(f"{file}: not valid TOML: nested too deeply")
    return _checked(_Table(file, Lines(text), (), document))


def _checked(document: _Table) -> Pipeline:
    own = document.table("pipeline")
    name = own.matching("name", _PIPELINE_NAME, "letters, digits, dots, dashes and underscores")
    server = own.text("server", SERVER)
    try:
        check_server_address(server)
    except ValueError as error:
        raise own.error(str(error), "server")
    path = own.optional("path")
    checkpoint = own.text("checkpoint")
    trigger = own.matching("trigger", _DURATION, "a time such as '10 seconds'", TRIGGER)
    own.end()
    sources = tuple(_source(each) for each in document.tables("source"))
    views = tuple(_view(each) for each in document.tables("view", least=0))
    spark = document.table("spark", {}).texts()
    names = [source.name for source in sources] + [view.name for view in views]
    keys = [("source", at) for at in range(len(sources))] + [("view", at) for at in range(len(views))]
    _refuse_twice(document, names, keys)
    sinks = tuple(_sink(each, names) for each in document.tables("sink"))
    document.end()
    _refuse_twice(document, [sink.name for sink in sinks], [("sink", at) for at in range(len(sinks))])
    return Pipeline(
        document.file, document.lines, name, server, path, checkpoint, trigger, spark, sources, views, sinks
    )


def _refuse_twice(document: _Table, names: Sequence[str], keys: Sequence[tuple[str, int]]) -> None:
    """Names are compared as SQL does."""
    seen: dict[str, tuple[str, int]] = {}
    for name, key in zip(names, keys, strict=True):
        if name.lower() in seen:
            first = document.lines.line(*seen[name.lower()])
            raise document.error(f"{name!r} is the name of another one, on line {first}: choose a different one", *key)
        seen[name.lower()] = key


def _source(table: _Table) -> Source:
    name = table.matching("name", _NAME, "letters, digits and underscores")
    topic, topics, pattern = table.optional("topic"), table.names("topics"), table.optional("topic_pattern")
    given = {"topic": topic, "topics": ",".join(topics) or None, "topicPattern": pattern}
    where = {key: value for key, value in given.items() if value is not None}
    if len(where) != 1:
        raise table.error("give one of topic, topics and topic_pattern")
    format = table.choice("format", FORMATS, "raw")
    schema = table.optional("schema")
    if format in ("json", "csv") and schema is None:
        raise table.error(f'{format} needs a schema, such as "user string, amount decimal(10,2)"', "format")
    if format not in ("json", "csv") and schema is not None:
        raise table.error(f"a schema is for json and csv, and the format is {format}", "schema")
    parse = table.table("parse", {}).texts()
    options = table.table("options", {}).texts()
    start = table.optional("start")
    if start is not None:
        options["startingOffsets" if start in ("earliest", "latest") else "startingTimestamp"] = start
    late = table.table("watermark", {})
    watermark = None
    if late.values:
        delay = late.matching("delay", _DURATION, "a time such as '10 minutes'")
        watermark = Watermark(late.text("column"), delay)
    late.end()
    table.end()
    return Source(name, where, format, schema, parse, watermark, options)


def _view(table: _Table) -> View:
    view = View(table.matching("name", _NAME, "letters, digits and underscores"), table.text("sql"))
    table.end()
    return view


def _sink(table: _Table, views: Iterable[str]) -> Sink:
    known = {name.lower(): name for name in views}
    view = table.text("view")
    if view.lower() not in known:
        raise table.error(f"there is no source and no view {view!r}{_hint(view.lower(), known)}", "view")
    topic, parquet, console = table.optional("topic"), table.optional("parquet"), table.get("console", bool, False)
    if (topic is not None) + (parquet is not None) + console != 1:
        raise table.error("give one of topic, parquet and console = true")
    format = table.choice("format", SINK_FORMATS, "json")
    mode = table.choice("mode", MODES, "append")
    if parquet is not None and mode != "append":
        raise table.error("to Parquet, rows are appended: use a watermark, so that they are final", "mode")
    if topic is not None and mode == "complete":
        raise table.error("a topic can't be replaced: use append or update", "mode")
    partition_by = tuple(table.names("partition_by"))
    name = table.matching("name", _PIPELINE_NAME, "letters, digits, dots, dashes and underscores", view)
    table.end()
    return Sink(name, view, topic, parquet, format, mode, partition_by)


class _Table:
    """A table of the file, whose keys are asked for one by one."""

    def __init__(self, file: str, lines: Lines, path: tuple[str | int, ...], values: Mapping[str, Any]) -> None:
        self.file = file
        self.lines = lines
        self.values = values
        self._path = path
        self._asked: set[str] = set()

    def error(self, text: str, *path: str | int) -> PipelineError:
        """An error at a key of this table, or at the table."""
        name = "".join(f".{each}" if isinstance(each, str) else f"[{each + 1}]" for each in (*self._path, *path))
        where = f"{self.file}:{self.lines.line(*self._path, *path)}"
        return PipelineError(f"{where}: {name.lstrip('.')}: {text}" if name else f"{where}: {text}")

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        """A value of a kind; without a default it must be there."""
        self._asked.add(key)
        value = self.values.get(key, default)
        if value is None:
            raise self.error(f"{key} is missing: give {_KINDS[kind]}")
        if not isinstance(value, kind):
            raise self.error(f"expected {_KINDS[kind]}", key)
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A string that is not empty."""
        value = self.get(key, str, default)
        if not value.strip():
            raise self.error("is empty: give a value, or leave it out", key)
        return value

    def optional(self, key: str) -> str | None:
        """A string, or None where it is left out."""
        self._asked.add(key)
        return self.text(key) if key in self.values else None

    def matching(self, key: str, pattern: re.Pattern[str], wanted: str, default: str | None = None) -> str:
        """A string of a certain form."""
        value = self.text(key, default)
        if not pattern.fullmatch(value):
            raise self.error(f"{value!r} can't be used: give {wanted}", key)
        return value

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """One of several words."""
        value = self.text(key, default)
        if value not in choices:
            raise self.error(f"{value!r} is none of {', '.join(choices)}{_hint(value, choices)}", key)
        return value

    def names(self, key: str) -> list[str]:
        """A list of strings; empty where it is left out."""
        found: list[str] = self.get(key, list, [])
        if not all(isinstance(each, str) and each for each in found):
            raise self.error("expected a list of strings", key)
        return found

    def table(self, key: str, default: dict[str, Any] | None = None) -> _Table:
        """A table in this one."""
        return _Table(self.file, self.lines, (*self._path, key), self.get(key, dict, default))

    def tables(self, key: str, least: int = 1) -> list[_Table]:
        """The tables of an array, which are written as [[key]]."""
        found: list[Any] = self.get(key, list, [])
        if len(found) < least:
            raise self.error(f"there is no [[{key}]]: a pipeline has one at least")
        if not all(isinstance(each, dict) for each in found):
            raise self.error(f"expected tables, written as [[{key}]]", key)
        return [_Table(self.file, self.lines, (*self._path, key, at), each) for at, each in enumerate(found)]

    def texts(self) -> dict[str, str]:
        """All of it as strings by key, for options of Spark. Dots in keys are kept."""
        found: dict[str, str] = {}
        for key, value in self.values.items():
            if isinstance(value, dict):
                inner = _Table(self.file, self.lines, (*self._path, key), value).texts()
                found.update((f"{key}.{name}", each) for name, each in inner.items())
            elif isinstance(value, bool):
                found[key] = str(value).lower()
            elif isinstance(value, str | int | float):
                found[key] = str(value)
            else:
                raise self.error("expected a string, a number, true or false", key)
        return found

    def end(self) -> None:
        """No other key is there."""
        for key in self.values:
            if key not in self._asked:
                raise self.error(f"no such key{_hint(key, self._asked)}", key)


def _hint(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, known, 1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(known))}"
