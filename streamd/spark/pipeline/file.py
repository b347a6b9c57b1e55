"""A pipeline's file, in TOML: sources, views in SQL, sinks; checked as far as that is possible without Spark.

Every error names the file and the line, and says what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from streamd.interfaces import ConfigError
from streamd.settings import required, setting
from streamd.spark.options import check_server_address
from streamd.tables import fill, hint, parse, read_text
from streamd.toml_lines import Lines

FORMATS: Final = ("raw", "text", "json", "csv", "smq")
SINK_FORMATS: Final = ("json", "csv", "text")
STATIC: Final = ("parquet", "csv", "delta")
MODES: Final = ("append", "update", "complete")
SERVER: Final = "127.0.0.1:12345"
TRIGGER: Final = "10 seconds"

_TOML_PLACE: Final = re.compile(r" \(at line (\d+), column \d+\)$")

T = TypeVar("T")


class PipelineError(Exception):
    """What is wrong with a pipeline, with file and line."""


def _matching(pattern: str, wanted: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} can't be used: give {wanted}")

    return check


def _not_empty(text: str) -> None:
    if not text.strip():
        raise ValueError("is empty: give a value, or leave it out")


_sql_name = _matching(r"[A-Za-z_][A-Za-z0-9_]*", "letters, digits and underscores")
_plain_name = _matching(r"[A-Za-z0-9][A-Za-z0-9_.-]*", "letters, digits, dots, dashes and underscores")
_duration = _matching(r"[0-9]+ (millisecond|second|minute|hour|day|week)s?", "a time such as '10 seconds'")


@dataclass(frozen=True)
class Watermark:
    """How late records may come."""

    column: str = required("the column with the time", check=_not_empty)
    delay: str = required("how late", check=_duration)


@dataclass(frozen=True)
class Source:
    """Topics that become a view."""

    name: str = required("the name of the view", check=_sql_name)
    topic: str | None = setting(None, "one topic", check=_not_empty)
    topics: tuple[str, ...] = setting((), "several topics", check=_not_empty)
    topic_pattern: str | None = setting(None, "topics by a regular expression", check=_not_empty)
    parquet: str | None = setting(None, "a table that does not change, of Parquet files", check=_not_empty)
    csv: str | None = setting(None, "a table that does not change, of CSV files", check=_not_empty)
    delta: str | None = setting(None, "a table that does not change, in Delta's format", check=_not_empty)
    format: str = setting("raw", "what the messages are", choices=FORMATS)
    schema: str | None = setting(None, "the columns of json and csv", check=_not_empty)
    start: str | None = setting(None, "earliest, latest or a time", check=_not_empty)
    watermark: Watermark | None = None
    parse: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> dict[str, str]:
        """The one option of Spark's source that says which topics."""
        given = {"topic": self.topic, "topics": ",".join(self.topics) or None, "topicPattern": self.topic_pattern}
        return {key: value for key, value in given.items() if value is not None}

    @property
    def static(self) -> tuple[str, str] | None:
        """Of a table that does not change: what it is, one of `STATIC`, and where."""
        given = {"parquet": self.parquet, "csv": self.csv, "delta": self.delta}
        return next(((kind, value) for kind, value in given.items() if value is not None), None)


@dataclass(frozen=True)
class View:
    """A view in SQL, over sources and the views before it."""

    name: str = required("the name of the view", check=_sql_name)
    sql: str = required("the query", check=_not_empty)


@dataclass(frozen=True)
class Sink:
    """Where the rows of a view go."""

    view: str = required("the view", check=_not_empty)
    name: str = setting("", "the name of the query", check=_plain_name)
    topic: str | None = setting(None, "the topic that gets the rows", check=_not_empty)
    parquet: str | None = setting(None, "the directory that gets the rows", check=_not_empty)
    delta: str | None = setting(None, "the Delta table that gets the rows", check=_not_empty)
    console: bool = setting(False, "whether the rows are printed")
    format: str = setting("json", "how a row becomes a message", choices=SINK_FORMATS)
    mode: str = setting("append", "which rows of a trigger are written", choices=MODES)
    partition_by: tuple[str, ...] = setting((), "columns that become directories", check=_not_empty)


@dataclass(frozen=True)
class _Own:
    """``[pipeline]``"""

    name: str = required("the name of the pipeline", check=_plain_name)
    checkpoint: str = required("the directory that keeps how far the queries are", check=_not_empty)
    server: str = setting(SERVER, "the daemon's Pravega service", check=check_server_address)
    path: str | None = setting(None, "the directory of a store, to read its files", check=_not_empty)
    trigger: str = setting(TRIGGER, "how often rows are written", check=_duration)


@dataclass(frozen=True)
class _File:
    pipeline: _Own
    source: tuple[Source, ...] = ()
    view: tuple[View, ...] = ()
    sink: tuple[Sink, ...] = ()
    spark: Mapping[str, Any] = field(default_factory=dict)


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
        text = read_text(file)
    except ConfigError as error:
        raise PipelineError(f"{file}: {error}")
    try:
        document = parse(text)
    except ConfigError as error:
        place = _TOML_PLACE.search(str(error))
        line = int(place[1]) if place else text.count("\n") + 1
        raise PipelineError(f"{file}:{line}: {_TOML_PLACE.sub('', str(error))}")
    lines = Lines(text)
    try:
        return _checked(file, lines, document)
    except ConfigError as error:
        raise PipelineError(f"{file}:{lines.line(*error.path)}: {error}")


def _checked(file: str, lines: Lines, document: Mapping[str, object]) -> Pipeline:
    for key in ("source", "view", "sink"):
        if not isinstance(document.get(key, []), list):
            raise ConfigError(f"expected tables, written as [[{key}]]", key)
    stated = fill(_File, document)
    if not (stated.source and stated.sink):
        raise ConfigError(f"there is no [[{'sink' if stated.source else 'source'}]]: a pipeline has one at least")
    own = stated.pipeline
    sources = tuple(_each("source", stated.source, _source))
    keys = [("source", at) for at in range(len(sources))] + [("view", at) for at in range(len(stated.view))]
    names = [source.name for source in sources] + [view.name for view in stated.view]
    _refuse_twice(lines, names, keys)
    known = {name.lower(): name for name in names}
    sinks = tuple(_each("sink", stated.sink, lambda sink: _sink(sink, known)))
    _refuse_twice(lines, [sink.name for sink in sinks], [("sink", at) for at in range(len(sinks))])
    spark = _texts(stated.spark, "spark")
    return Pipeline(
        file, lines, own.name, own.server, own.path, own.checkpoint, own.trigger, spark, sources, stated.view, sinks
    )


def _each(key: str, tables: Sequence[T], check: Callable[[T], T]) -> Iterator[T]:
    for at, table in enumerate(tables):
        try:
            yield check(table)
        except ConfigError as error:
            raise error.within(key, at)


def _refuse_twice(lines: Lines, names: Sequence[str], keys: Sequence[tuple[str, int]]) -> None:
    """Names are compared as SQL does."""
    seen: dict[str, tuple[str, int]] = {}
    for name, key in zip(names, keys, strict=True):
        if name.lower() in seen:
            first = lines.line(*seen[name.lower()])
            raise ConfigError(f"{name!r} is the name of another one, on line {first}: choose a different one", *key)
        seen[name.lower()] = key


def _source(source: Source) -> Source:
    static = [kind for kind in STATIC if getattr(source, kind) is not None]
    if len(source.where) + len(static) != 1:
        raise ConfigError("give one of topic, topics, topic_pattern, parquet, csv and delta")
    format, schema = source.format, source.schema
    if static:
        return _static_source(source, static[0])
    if format in ("json", "csv") and schema is None:
        raise ConfigError(f'{format} needs a schema, such as "user string, amount decimal(10,2)"', "format")
    if format not in ("json", "csv") and schema is not None:
        raise ConfigError(f"a schema is for json and csv, and the format is {format}", "schema")
    options = _texts(source.options, "options")
    if source.start is not None:
        options["startingOffsets" if source.start in ("earliest", "latest") else "startingTimestamp"] = source.start
    return replace(source, parse=_texts(source.parse, "parse"), options=options)


def _static_source(source: Source, kind: str) -> Source:
    if (source.schema is None) == (kind == "csv"):
        raise ConfigError("csv needs a schema; parquet and delta have one", *(("schema",) if source.schema else ()))
    if source.start is not None or source.watermark is not None or source.options or source.format != "raw":
        raise ConfigError(f"{kind} is a table that does not change: leave format, start, watermark and options out")
    return replace(source, parse=_texts(source.parse, "parse"))


def _sink(sink: Sink, known: Mapping[str, str]) -> Sink:
    if sink.view.lower() not in known:
        raise ConfigError(f"there is no source and no view {sink.view!r}{hint(sink.view.lower(), known)}", "view")
    if (sink.topic is not None) + (sink.parquet is not None) + (sink.delta is not None) + sink.console != 1:
        raise ConfigError("give one of topic, parquet, delta and console = true")
    if (sink.parquet is not None or sink.delta is not None) and sink.mode != "append":
        raise ConfigError("to Parquet and Delta, rows are appended: use a watermark, so that they are final", "mode")
    if sink.topic is not None and sink.mode == "complete":
        raise ConfigError("a topic can't be replaced: use append or update", "mode")
    return replace(sink, name=sink.name or sink.view)


def _texts(table: Mapping[str, object], *path: str) -> dict[str, str]:
    """The options of Spark in a table as strings, by keys whose dots are kept."""
    texts: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            texts.update((f"{key}.{name}", text) for name, text in _texts(value, *path, key).items())
        elif isinstance(value, bool):
            texts[key] = str(value).lower()
        elif isinstance(value, str | int | float):
            texts[key] = str(value)
        else:
            raise ConfigError("expected a string, a number, true or false", *path, key)
    return texts
