"""Messages as lists of fields: each field encodes and decodes one value, and a message is its fields in a row.

Both ends use the same list, so that neither can forget a field. Big endian throughout.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Any, ClassVar, Final, Generic, TypeVar

from crc32c import crc32c

from streamd.batch import LENGTH_TYPE, Batch, Buffer
from streamd.wire import WireError

T = TypeVar("T")
M = TypeVar("M", bound="Message")

_HEADER: Final = Struct(">ii")
assert _HEADER.size == 8
_COUNT: Final = Struct(">I")
_TEXT: Final = Struct(">H")
_RECORDS: Final = Struct(">III")
assert _RECORDS.size == 12
_ENDS_INSIDE: Final = "a message ends inside one of its fields"


class Field(ABC, Generic[T]):
    """One part of a message."""

    @abstractmethod
    def put(self, value: T, parts: list[Buffer]) -> None:
        """Append the bytes of a value. ValueError where there is no room for it."""

    @abstractmethod
    def take(self, data: bytes, at: int) -> tuple[T, int]:
        """The value that begins here, and its end. WireError where there is none."""

    def take_many(self, data: bytes, at: int, count: int) -> tuple[list[T], int]:
        """So many consecutive values that begin here, and their end."""
        items: list[T] = []
        for _ in range(count):
            item, at = self.take(data, at)
            items.append(item)
        return items, at


class Number(Field[int]):
    """An integer of a `struct` format. A signed one that counts something has `least` 0."""

    def __init__(self, form: str, least: int | None = None) -> None:
        self.form = form
        self._form = Struct(f">{form}")
        self._least = least

    def put(self, value: int, parts: list[Buffer]) -> None:
        try:
            parts.append(self._form.pack(value))
        except StructError as error:
            raise ValueError(f"{value!r}: {error}") from None
        if self._least is not None and value < self._least:
            raise ValueError(f"{value} is below {self._least}")

    def take(self, data: bytes, at: int) -> tuple[int, int]:
        (value,), end = _unpack(self._form, data, at)
        self.check((value,))
        return value, end

    def take_many(self, data: bytes, at: int, count: int) -> tuple[list[int], int]:
        rows, end = _unpack_many(self._form, data, at, count)
        values = [value for (value,) in rows]
        self.check(values)
        return values, end

    def check(self, values: Sequence[int]) -> None:
        """Raise WireError where one of these values is too small."""
        if self._least is not None and values and min(values) < self._least:
            raise WireError(f"{min(values)} is below {self._least}")


class Flag(Field[bool]):
    """One byte, 1 or 0."""

    def put(self, value: bool, parts: list[Buffer]) -> None:
        parts.append(b"\1" if value else b"\0")

    def take(self, data: bytes, at: int) -> tuple[bool, int]:
        if at >= len(data) or data[at] > 1:
            raise WireError("a flag that is neither 0 nor 1")
        return data[at] == 1, at + 1


class Text(Field[str]):
    """A length (uint16) and UTF-8."""

    def put(self, value: str, parts: list[Buffer]) -> None:
        raw = value.encode()
        if len(raw) >= 1 << 16:
            raise ValueError(f"a text of {len(raw)} bytes")
        parts += (_TEXT.pack(len(raw)), raw)

    def take(self, data: bytes, at: int) -> tuple[str, int]:
        (text,), end = self.take_many(data, at, 1)
        return text, end

    def take_many(self, data: bytes, at: int, count: int) -> tuple[list[str], int]:
        texts: list[str] = []
        size, unpack = len(data), _TEXT.unpack_from
        try:
            for _ in range(count):
                begin = at + _TEXT.size
                at = begin + unpack(data, at)[0]
                if at > size:
                    raise WireError(_ENDS_INSIDE)
                texts.append(data[begin:at].decode())
        except StructError:
            raise WireError(_ENDS_INSIDE) from None
        except UnicodeDecodeError:
            raise WireError("a text that is no UTF-8") from None
        return texts, at


class Fixed(Field[bytes]):
    """Bytes of a fixed length."""

    def __init__(self, length: int) -> None:
        self.form = f"{length}s"
        self._length = length

    def put(self, value: bytes, parts: list[Buffer]) -> None:
        if len(value) != self._length:
            raise ValueError(f"{len(value)} bytes where {self._length} are due")
        parts.append(value)

    def take(self, data: bytes, at: int) -> tuple[bytes, int]:
        return _slice(data, at, self._length), at + self._length


class Encoded(Field[bytes]):
    """Bytes that are encoded already, for a message that is put together in steps. It can't be decoded."""

    def put(self, value: bytes, parts: list[Buffer]) -> None:
        parts.append(value)

    def take(self, data: bytes, at: int) -> tuple[bytes, int]:
        raise NotImplementedError


class Row(Field[T]):
    """A tuple whose items are fields."""

    def __init__(self, kind: Callable[..., T], *fields: Field[Any]) -> None:
        self._kind = kind
        self._fields = fields
        # Where all items have a fixed size, many rows are unpacked at once.
        forms = [field.form for field in fields if isinstance(field, Number | Fixed)]
        self._form = Struct(f">{''.join(forms)}") if len(forms) == len(fields) else None

    def put(self, value: T, parts: list[Buffer]) -> None:
        for field, item in zip(self._fields, value, strict=True):  # type: ignore[call-overload]
            field.put(item, parts)

    def take(self, data: bytes, at: int) -> tuple[T, int]:
        items: list[object] = []
        for field in self._fields:
            item, at = field.take(data, at)
            items.append(item)
        return self._kind(*items), at

    def take_many(self, data: bytes, at: int, count: int) -> tuple[list[T], int]:
        if self._form is None:
            return super().take_many(data, at, count)
        rows, end = _unpack_many(self._form, data, at, count)
        for field, column in zip(self._fields, zip(*rows, strict=True), strict=False):
            if isinstance(field, Number):
                field.check(column)
        return [self._kind(*row) for row in rows], end


class Many(Field[Sequence[T]]):
    """A count (uint32), and so many values of one field: at most `count_max`."""

    def __init__(self, field: Field[T], count_max: int) -> None:
        self._field = field
        self._count_max = count_max

    def put(self, value: Sequence[T], parts: list[Buffer]) -> None:
        if len(value) > self._count_max:
            raise ValueError(f"{len(value)} at once, {self._count_max} at most")
        parts.append(_COUNT.pack(len(value)))
        for item in value:
            self._field.put(item, parts)

    def take(self, data: bytes, at: int) -> tuple[Sequence[T], int]:
        (count,), at = _unpack(_COUNT, data, at)
        if count > self._count_max:
            raise WireError(f"{count} at once, {self._count_max} at most")
        items, at = self._field.take_many(data, at, count)
        return tuple(items), at


class Records(Field[Batch]):
    """A batch, column by column: count, bytes of payload, CRC32C of what follows (uint32 each), lengths, payload.

    Neither end looks at single records.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max

    def put(self, value: Batch, parts: list[Buffer]) -> None:
        if value.count > self._count_max:
            raise ValueError(f"{value.count} records at once, {self._count_max} at most")
        lengths = _swapped(value.lengths)
        parts += (_RECORDS.pack(value.count, value.size, crc32c(value.payload, crc32c(lengths))), lengths)
        if value.size:
            parts.append(value.payload)

    def take(self, data: bytes, at: int) -> tuple[Batch, int]:
        (count, size, crc), begin = _unpack(_RECORDS, data, at)
        if count > self._count_max:
            raise WireError(f"{count} records at once, {self._count_max} at most")
        middle = begin + 4 * count
        end = middle + size
        if end > len(data):
            raise WireError(f"{count} records of {size} bytes in {len(data) - begin}")
        whole = memoryview(data)[begin:end]
        if crc32c(whole) != crc:
            raise WireError("records do not match their checksum")
        lengths = array(LENGTH_TYPE)
        lengths.frombytes(data[begin:middle])
        if sys.byteorder == "little":
            lengths.byteswap()
        if sum(lengths) != size:
            raise WireError(f"records of {sum(lengths)} bytes in {size}")
        return Batch(lengths, whole[4 * count :]), end


@dataclass(frozen=True)
class Layout:
    """A request or a reply: a type, and the fields that its payload consists of."""

    type: ClassVar[int]
    fields: ClassVar[tuple[Field[Any], ...]] = ()
    reads: ClassVar[bool] = True
    """Whether the request must see this connection's earlier writes."""

    @property
    def size(self) -> int:
        """About how many bytes the message keeps in memory."""
        return 256


@dataclass(frozen=True)
class Message(Layout):
    """A request or a reply that begins with a request id. `fields` has the field of each attribute but the id."""

    id: int


_ID: Final = Number("Q")


def values_of(message: Layout) -> list[Any]:
    """The values of a message's attributes, in their order."""
    names: tuple[str, ...] = message.__match_args__
    return [getattr(message, name) for name in names]


def framed(kind: int, fields: Sequence[Field[Any]], values: Sequence[Any]) -> bytes:
    """A message of this type with its header. ValueError where a field has no room for its value."""
    parts: list[Buffer] = []
    for field, value in zip(fields, values, strict=True):
        field.put(value, parts)
    return b"".join([_HEADER.pack(kind, sum(map(len, parts))), *parts])


def to_bytes(message: Message) -> bytes:
    """A message with its header. ValueError where a field has no room for its value."""
    return framed(message.type, (_ID, *message.fields), values_of(message))


def from_payload(kind: type[M], payload: bytes) -> M:
    """The message of this kind that a payload consists of. WireError where it is none."""
    id, at = _ID.take(payload, 0)
    values: list[object] = []
    for field in kind.fields:
        value, at = field.take(payload, at)
        values.append(value)
    if at != len(payload):
        raise WireError(f"{len(payload) - at} bytes behind the last field")
    return kind(id, *values)


def _swapped(lengths: array[int]) -> bytes:
    if sys.byteorder == "little":
        lengths = lengths[:]
        lengths.byteswap()
    return lengths.tobytes()


def _unpack(form: Struct, data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    end = at + form.size
    if end > len(data):
        raise WireError(_ENDS_INSIDE)
    return form.unpack_from(data, at), end


def _unpack_many(form: Struct, data: bytes, at: int, count: int) -> tuple[list[tuple[Any, ...]], int]:
    end = at + form.size * count
    if end > len(data):
        raise WireError(_ENDS_INSIDE)
    return list(form.iter_unpack(memoryview(data)[at:end])), end


def _slice(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise WireError(_ENDS_INSIDE)
    return data[at : at + length]
