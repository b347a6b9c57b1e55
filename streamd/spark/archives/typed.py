"""Typed columns: what is in a message, by a schema, beside its value. A message that does not fit is kept, with why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from streamd.spark.archives.location import ArchiveError
from streamd.spark.pipeline.smq import decoded
from streamd.spark.read.columns import ARROW

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMATS: Final = ("json", "csv", "smq")

ERROR: Final = "error"
"""The column that says why a message does not fit; null where it does."""

OWN: Final = ("offset", "timestamp", "type", "value")
"""The columns of every archive."""

UNTYPED: Final = pa.schema([(name, ARROW[name]) for name in OWN])

_ONE_BY_ONE: Final = 16
"""A block of messages with one that does not fit is halved, down to this."""


class Typing(NamedTuple):
    """How messages become columns. Tasks are told of it."""

    format: str
    columns: Any
    """The typed columns, as an Arrow schema with the names that messages have."""

    @property
    def schema(self) -> Any:
        """All columns of such an archive."""
        typed = [pa.field(_stored(field.name), field.type) for field in self.columns]
        return pa.schema([*UNTYPED, *typed, pa.field(ERROR, pa.string())])

    def added(self, batch: Any) -> Any:
        """A record batch of the columns `OWN`, with the typed ones."""
        if not len(batch):
            return pa.RecordBatch.from_pylist([], self.schema)
        pieces = list(_fitted(self, batch))
        whole = pieces[0] if len(pieces) == 1 else pa.Table.from_batches(pieces).combine_chunks().to_batches()[0]
        return pa.RecordBatch.from_arrays([*batch.columns, *whole.columns], schema=self.schema)


def typing_of(format: str, schema: str) -> Typing:
    """The columns that a text such as ``id long, at timestamp`` asks for; ArchiveError. Needs a Spark session."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    if format not in FORMATS:
        raise ArchiveError(f"the format is {format!r}: give one of {', '.join(FORMATS)}")
    try:
        parsed = cast("StructType", StructType.fromDDL(schema))
        columns = to_arrow_schema(parsed, timezone="UTC")
    except PySparkException as error:
        raise ArchiveError(f"the schema {schema!r} can't be used: {str(error).strip().splitlines()[0]}") from None
    names = [_stored(name).lower() for name in parsed.names]
    if len(set(names)) < len(names) or ERROR in names:
        raise ArchiveError(f"the schema {schema!r} names a column twice, or {ERROR!r}, which is taken: choose another")
    typing = Typing(format, columns)
    try:
        list(typing.added(pa.RecordBatch.from_pylist([{"value": b"{}"}], UNTYPED)))
    except (pa.ArrowException, NotImplementedError) as error:
        raise ArchiveError(f"{format} has no values for the schema {schema!r}: {error}") from None
    return typing


def stored_typing(format: int, schema: Any) -> Typing:
    """The typing of a table that has it already."""
    fields = [field for field in schema if field.name not in (*OWN, ERROR)]
    return Typing(FORMATS[format], pa.schema([pa.field(_given(field.name), field.type) for field in fields]))


def evolved(old: Typing | None, new: Typing) -> Typing:
    """The typing of a table whose schema is given anew; ArchiveError where what is there does not fit it."""
    if old is None:
        return new
    if old.format != new.format:
        raise ArchiveError(f"the archive has columns of {old.format}, not of {new.format}: archive elsewhere")
    types = {field.name: field.type for field in new.columns}
    for field in old.columns:
        found = types.pop(field.name, field.type)
        if found != field.type:
            raise ArchiveError(
                f"column {field.name!r} is {field.type} in the archive, and {found} in the schema: give the new one "
                "another name, or archive elsewhere. Columns can be added, and those left out stay"
            )
    return Typing(new.format, pa.schema([*old.columns, *(pa.field(name, kind) for name, kind in types.items())]))


def _stored(name: str) -> str:
    """The column for a name in a message: names that the archive has itself get something in front."""
    return f"value_{name}" if name.lower() in OWN else name


def _given(name: str) -> str:
    plain = name.removeprefix("value_")
    return plain if plain.lower() in OWN else name


def _fields(typing: Typing) -> Any:
    return pa.schema([*(pa.field(_stored(field.name), field.type) for field in typing.columns), (ERROR, pa.string())])


class _Unfit(Exception):
    """A block of messages that can't be parsed as a whole."""


def _fitted(typing: Typing, block: Any) -> Iterator[Any]:
    """The typed columns of a block in pieces: each was parsed as a whole, or is one message that does not fit."""
    schema = _fields(typing)
    try:
        columns, error = _parsed(typing, block).columns, None
    except _Unfit as unfit:
        if len(block) > 1:
            step = -(-len(block) // 2) if len(block) > _ONE_BY_ONE else 1
            for first in range(0, len(block), step):
                yield from _fitted(typing, block.slice(first, step))
            return
        columns, error = [pa.nulls(1, field.type) for field in typing.columns], str(unfit)
    errors = pa.repeat(pa.scalar(error, pa.string()), len(block))
    yield pa.RecordBatch.from_arrays([*columns, errors], schema=schema)


def _parsed(typing: Typing, block: Any) -> Any:
    """The typed columns of a block; _Unfit where one message does not fit."""
    try:
        table = _PARSERS[typing.format](typing.columns, block)
        if table.num_rows != len(block):
            raise _Unfit("more than one value")
        fitted = table if table.schema.equals(typing.columns) else table.cast(typing.columns)
        return fitted.combine_chunks().to_batches()[0]
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeDecodeError) as error:
        raise _Unfit(str(error)) from None


def _lines(values: Any) -> Any:
    """Texts as lines, in one buffer."""
    return pc.binary_join(pa.ListArray.from_arrays([0, len(values)], values), "\n")[0].as_buffer()


def _json(columns: Any, block: Any) -> Any:
    values = pc.ascii_trim_whitespace(block["value"].cast(pa.string()))
    # Then no value begins in one message and ends in another: behind a } there is never a { within a value.
    if not pc.all(pc.and_(pc.starts_with(values, "{"), pc.ends_with(values, "}"))).as_py():
        raise _Unfit("not a JSON object")
    read = pa.schema([pa.field(field.name, _without_dates(field.type)) for field in columns])
    data = _lines(values)
    return pa_json.read_json(
        pa.BufferReader(data),
        pa_json.ReadOptions(use_threads=False, block_size=data.size + 1),
        pa_json.ParseOptions(explicit_schema=read, unexpected_field_behavior="ignore"),
    )


def _without_dates(kind: Any) -> Any:
    """The type that JSON is read as: for Arrow dates are numbers there, and so they are read as strings first."""
    if pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_without_dates(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _without_dates(field.type)) for field in kind])
    return kind


def _csv(columns: Any, block: Any) -> Any:
    values = pc.ascii_rtrim(block["value"].cast(pa.string()), "\r\n")
    if pc.any(pc.match_substring(values, "\n")).as_py():
        raise _Unfit("more than one line")
    data = _lines(values)
    return pa_csv.read_csv(
        pa.BufferReader(data),
        pa_csv.ReadOptions(use_threads=False, column_names=columns.names, block_size=data.size + 2),
        pa_csv.ParseOptions(ignore_empty_lines=False),
        pa_csv.ConvertOptions(column_types={field.name: field.type for field in columns}),
    )


def _smq(columns: Any, block: Any) -> Any:
    """One element of a message for each column, in their order."""
    rows = []
    for kind, value in zip(block["type"].to_pylist(), block["value"].to_pylist(), strict=True):
        integers, numbers, strings = decoded(kind, value)
        elements: list[Any] = next((some for some in (integers, numbers, strings) if some is not None), [])
        if len(elements) != len(columns):
            raise _Unfit(f"{len(elements)} elements of type {kind}, and {len(columns)} columns")
        rows.append(elements)
    turned = zip(*rows, strict=True) if rows else [()] * len(columns)
    made = [pa.array(list(column)).cast(field.type) for column, field in zip(turned, columns, strict=True)]
    return pa.Table.from_arrays(made, schema=columns)


_PARSERS: Final = {"json": _json, "csv": _csv, "smq": _smq}
