"""Protocol Buffers, as far as Pravega's controller needs them: messages as dataclasses whose fields know their numbers.

A message is a run of fields. Each begins with a varint, number << 3 | wire type: 0 a varint, 1 eight bytes, 2 a length
and so many bytes, 5 four bytes. Fields that a message does not know are skipped; one with its default is not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from struct import Struct
from typing import Any, Final, NamedTuple, TypeVar

from streamd.wire import WireError

M = TypeVar("M", bound="Message")

_DOUBLE: Final = Struct("<d")
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True)
class Message:
    """A message, with all fields at their defaults unless they are given."""


class _Kind(NamedTuple):
    wire_type: int
    is_many: bool
    put: Callable[[Any], bytes]
    take: Callable[[Any], Any]
    """The value of what stands on the wire: an int, eight bytes, or bytes."""


def _field(number: int, kind: _Kind, default: object) -> Any:
    return field(default=default, metadata={"number": number, "kind": kind})


def text(number: int) -> Any:
    """A string."""
    return _field(number, _TEXT, "")


def texts(number: int) -> Any:
    """Any number of strings."""
    return _field(number, _TEXT._replace(is_many=True), ())


def integer(number: int) -> Any:
    """An int32, int64, bool or enum."""
    return _field(number, _INTEGER, 0)


def integers(number: int) -> Any:
    """Any number of integers."""
    return _field(number, _INTEGER._replace(is_many=True), ())


def double(number: int) -> Any:
    """A double."""
    return _field(number, _Kind(_EIGHT, False, _DOUBLE.pack, lambda raw: _DOUBLE.unpack(raw)[0]), 0.0)


def message(number: int, kind: type[Message], default: Message | None = None) -> Any:
    """A message inside this one; None where it is absent, unless there is a default."""
    return _field(number, _Kind(_BYTES, False, encode, lambda raw: decode(kind, raw)), default)


def messages(number: int, kind: type[Message]) -> Any:
    """Any number of messages."""
    return _field(number, _Kind(_BYTES, True, encode, lambda raw: decode(kind, raw)), ())


def encode(value: Message) -> bytes:
    """The bytes of a message."""
    parts: list[bytes] = []
    for name, number, kind, default in _described(type(value)):
        given = getattr(value, name)
        if given == default and not (kind.put is encode and given is not None):
            continue
        for item in given if kind.is_many else (given,):
            parts += (varint(number << 3 | kind.wire_type), _framed(kind, kind.put(item)))
    return b"".join(parts)


def decode(kind: type[M], data: bytes) -> M:
    """The message of this kind. WireError where the bytes are none."""
    known = {number: (name, described) for name, number, described, _ in _described(kind)}
    values: dict[str, Any] = {}
    for number, wire_type, raw in _fields(data):
        name, described = known.get(number, ("", None))
        if described is None:
            continue
        if described.is_many:
            items = values.setdefault(name, [])
            if described.wire_type == _VARINT and wire_type == _BYTES:
                # Numbers come packed: one field for all of them.
                items += [_INTEGER.take(each) for each in _varints(raw)]
                continue
        if wire_type != described.wire_type:
            raise WireError(f"field {number} of {kind.__name__} has wire type {wire_type}")
        if described.is_many:
            items.append(described.take(raw))
        else:
            values[name] = described.take(raw)
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def varint(value: int) -> bytes:
    """A number in as many bytes as it needs, seven bits each; a negative one takes ten."""
    value &= _MASK
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _framed(kind: _Kind, data: bytes) -> bytes:
    return varint(len(data)) + data if kind.wire_type == _BYTES else data


_KNOWN: Final[dict[type[Message], tuple[tuple[str, int, _Kind, object], ...]]] = {}


def _described(kind: type[Message]) -> tuple[tuple[str, int, _Kind, object], ...]:
    """The name, number, kind and default of each field."""
    known = _KNOWN.get(kind)
    if known is None:
        rows = ((each.name, each.metadata["number"], each.metadata["kind"], each.default) for each in fields(kind))
        known = _KNOWN[kind] = tuple(rows)
    return known


def _take_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise WireError("a number that does not end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, at
        shift += 7


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _take_varint(data, at)
        yield value


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    at = 0
    while at < len(data):
        key, at = _take_varint(data, at)
        wire_type = key & 7
        if wire_type == _VARINT:
            value, at = _take_varint(data, at)
            yield key >> 3, wire_type, value
            continue
        if wire_type == _BYTES:
            size, at = _take_varint(data, at)
        elif wire_type in (_EIGHT, _FOUR):
            size = 8 if wire_type == _EIGHT else 4
        else:
            raise WireError(f"wire type {wire_type} is none of ours")
        if size > len(data) - at:
            raise WireError("a field ends behind its message")
        yield key >> 3, wire_type, data[at : at + size]
        at += size


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise WireError("a string that is no UTF-8") from None


_TEXT: Final = _Kind(_BYTES, False, str.encode, _text)
_INTEGER: Final = _Kind(_VARINT, False, varint, lambda raw: raw - (1 << 64) if raw >> 63 else raw)
