"""Messages of Simple Message Queue as columns: what is in a message, by its type."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

COLUMNS: Final = ("integers", "numbers", "strings")
"""Whole numbers as they are; all numbers, as doubles; strings. Each is an array, or null where the type has none."""

RETURNED: Final = "integers array<decimal(20,0)>, numbers array<double>, strings array<string>"

_INTEGERS: Final = {"U8": "B", "U16": "H", "U32": "I", "U64": "Q", "I8": "b", "I16": "h", "I32": "i", "I64": "q"}
_FLOATS: Final = {"F32": "f", "F64": "d"}

Decoded = tuple[list[Decimal] | None, list[float] | None, list[str] | None]


def decoded(kind: str | None, data: bytes) -> Decoded:
    """The elements of a message."""
    if kind == "Str":
        # Each element ends with a NUL.
        return None, None, data.decode(errors="replace").split("\0")[:-1]
    if kind in _FLOATS:
        return None, [number for (number,) in struct.iter_unpack(f">{_FLOATS[kind]}", data)], None
    if kind in _INTEGERS:
        found = [number for (number,) in struct.iter_unpack(f">{_INTEGERS[kind]}", data)]
        return [Decimal(number) for number in found], [float(number) for number in found], None
    return None, None, None


def column() -> Column:
    """The struct of `COLUMNS`, from the columns type and value."""
    from pyspark.sql.pandas.functions import pandas_udf

    decode: Any = pandas_udf(_decode_all, RETURNED)  # type: ignore[call-overload]
    made: Column = decode("type", "value")
    return made


def _decode_all(kinds: Any, values: Any) -> Any:
    import pandas

    rows: Iterable[Decoded] = map(decoded, kinds, values)
    return pandas.DataFrame(list(rows), columns=list(COLUMNS))


# Spark looks at the annotations of a function of pandas for its kind, and finds none that it knows in a text.
_decode_all.__annotations__.clear()
