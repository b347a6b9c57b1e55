"""Tables of TOML files, checked against dataclasses: one reader and one set of checks for every file that people write.

A table is a dataclass whose fields come from `streamd.settings.setting`. Beside plain values a field may be another
dataclass, a ``tuple[Class, ...]`` for an array of tables, or a ``Mapping[str, Class]`` for tables by name. Each error
is a `ConfigError` that knows the path of its key.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from streamd.interfaces import ConfigError

T = TypeVar("T")

# TOML's integers have 64 bits; Python's reader takes longer ones, which nothing behind it could use.
_INTEGER_MAX: Final = (1 << 63) - 1

_EXPECTED: Final[dict[object, str]] = {
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "true or false",
    tuple: "a list of strings",
    Mapping: "a table",
}


def read_text(path: str) -> str:
    """The text of a file; ConfigError says why it can't be read."""
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8")
    except OSError as error:
        raise ConfigError(error.strerror or str(error))
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 at byte {error.start}")


def parse(text: str) -> dict[str, Any]:
    """The tables of a TOML document; ConfigError names line and column of a syntax error."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}")
    except RecursionError:
        raise ConfigError("not valid TOML: nested too deeply")


def fill(settings: type[T], table: object) -> T:
    """An instance of a settings dataclass from a table, each value checked against its field.

    Protocols use it for tables of their own. The path of a ConfigError begins with the key: a caller that knows where
    the table is prepends that, with `ConfigError.within`.
    """
    if not isinstance(table, Mapping):
        raise ConfigError(f"expected a table, got {show(table)}")
    known = {field.name: field for field in fields(settings)}  # type: ignore[arg-type]
    types = get_type_hints(settings)
    for key in table:
        if key not in known:
            raise unknown_key(key, known)
    values = {}
    for name, field in known.items():
        if name in table:
            try:
                values[name] = _of_field(table[name], types[name], field)
            except ConfigError as error:
                raise error.within(name)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"{name} is missing: give {_expected(types[name])}")
    return settings(**values)


def _of_field(value: object, wanted: Any, field: Field[Any]) -> Any:
    if value == [] and field.default == ():
        return ()
    return checked(value, wanted, field.metadata)


def checked(value: object, wanted: Any, metadata: Mapping[str, Any]) -> Any:
    """The value, where it has the wanted type and is within its bounds. True is no integer; an integer is a number."""
    inner = get_args(wanted)
    if NoneType in inner:
        return checked(value, inner[0], metadata)
    if is_dataclass(wanted):
        return fill(wanted, value)  # type: ignore[arg-type]
    if get_origin(wanted) is tuple and is_dataclass(inner[0]):
        return tuple(_inside(number, table, inner[0], {}) for number, table in enumerate(_listed(value)))
    if get_origin(wanted) is tuple:
        if not isinstance(value, list) or not value:
            raise _mistyped(value, wanted)
        return tuple(checked(item, inner[0], metadata) for item in value)
    if get_origin(wanted) is Mapping:
        if not isinstance(value, Mapping):
            raise _mistyped(value, wanted)
        return {key: item if inner[1] is Any else _inside(key, item, inner[1], {}) for key, item in value.items()}
    if wanted is float and type(value) is int:
        value = float(value) if abs(value) <= _INTEGER_MAX else math.inf
    if type(value) is not wanted:
        raise _mistyped(value, wanted)
    return _bounded(value, metadata)


def _inside(key: str | int, value: object, wanted: Any, metadata: Mapping[str, Any]) -> Any:
    try:
        return checked(value, wanted, metadata)
    except ConfigError as error:
        raise error.within(key)


def _listed(value: object) -> list[Any]:
    """The tables of an array; a single one may be written as a plain table."""
    return value if isinstance(value, list) else [value]


def _bounded(value: Any, metadata: Mapping[str, Any]) -> Any:
    least, choices, check = metadata.get("least"), metadata.get("choices"), metadata.get("check")
    if choices is not None and value not in choices:
        raise ConfigError(f"expected one of {', '.join(choices)}; got {show(value)}{hint(value, choices)}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not abs(value) <= _INTEGER_MAX:  # nor NaN
            raise ConfigError(f"{show(value)} is out of range")
        if least is not None and value < least:
            raise ConfigError(f"{show(value)} is below the least value of {least}")
    if check is not None:
        try:
            check(value)
        except ValueError as error:
            raise ConfigError(str(error))
    return value


def unknown_key(key: str, known: Iterable[str]) -> ConfigError:
    """The error for a key that no table of this kind has."""
    names = sorted(known)
    others = f"; known are {', '.join(names)}" if names else "; there are none here"
    return ConfigError(f"no such key{hint(key, names) or others}", key)


def hint(word: str, known: Iterable[str]) -> str:
    """A suggestion for the text of an error, where one of the known words is similar."""
    near = get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _expected(wanted: Any) -> str:
    inner = get_args(wanted)
    if NoneType in inner:
        return _expected(inner[0])
    if get_origin(wanted) is tuple and inner[0] is float:
        return "a list of numbers"
    return "a table" if is_dataclass(wanted) else _EXPECTED[get_origin(wanted) or wanted]


def _mistyped(value: object, wanted: Any) -> ConfigError:
    return ConfigError(f"expected {_expected(wanted)}, got {show(value)}")


def show(value: object) -> str:
    """A value as the file might have it, cut short."""
    if isinstance(value, dict):
        return "a table"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # dates, times
        text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
