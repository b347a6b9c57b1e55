"""Messages of Simple Message Queue as Python values.

    bytes                    U8, as many elements as bytes
    str, list of str         Str
    int, list of int         I64, or U64 where one is too large for it
    float, list of float     F64
    array.array              the type of its elements

`Message.of(value, type)` makes elements of any other type. `Message.value` is bytes for U8, the element itself where
there is just one, and a list otherwise.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, Union

Value = Union[
    bytes, bytearray, memoryview, str, int, float, "array[Any]", Sequence[str], Sequence[int], Sequence[float]
]
"""A value that can be pushed as a message."""


class Type(IntEnum):
    """The type of the elements of a message."""

    U8 = 0
    U16 = 1
    U32 = 2
    U64 = 3
    I8 = 4
    I16 = 5
    I32 = 6
    I64 = 7
    F32 = 8
    F64 = 9
    STR = 10


_CODES: Final = "BHIQbhiqfd"
_OF_CODE: Final = {code: Type(number) for number, code in enumerate(_CODES)}
_OF_CODE.update({"L": Type.U64, "l": Type.I64} if array("L").itemsize == 8 else {"L": Type.U32, "l": Type.I32})
_I64_END: Final = 1 << 63


class Message(NamedTuple):
    """A typed message. `data` holds its elements end to end, as they are on the wire."""

    type: Type
    data: bytes

    @classmethod
    def of(cls, value: Value | Message, type: Type | None = None) -> Message:
        """Return a message of this value: of the given type, or of the value's own (see `streamd.client.values`)."""
        if isinstance(value, Message):
            return value
        if isinstance(value, (bytes, bytearray, memoryview)) and type in (None, Type.U8):
            return cls(Type.U8, bytes(value))
        if isinstance(value, (str, int, float)):
            elements: Sequence[Any] = (value,)
        else:
            elements = value
        if type is None:
            type = _type_of(value, elements)
        return cls(type, _packed(type, elements))

    @property
    def elements(self) -> list[Any]:
        """The elements of the message, each a number or a str."""
        if self.type is Type.STR:
            return [text.decode("utf-8", "surrogateescape") for text in self.data.split(b"\0")[:-1]]
        return [element for (element,) in struct.iter_unpack(f">{_CODES[self.type]}", self.data)]

    @property
    def value(self) -> Any:
        """The value of the message: bytes for U8, one element as itself, several as a list."""
        if self.type is Type.U8:
            return self.data
        elements = self.elements
        return elements[0] if len(elements) == 1 else elements


def _type_of(value: object, elements: Sequence[Any]) -> Type:
    if isinstance(value, array) and value.typecode in _OF_CODE:
        return _OF_CODE[value.typecode]
    if not isinstance(value, (str, int, float, Sequence, array)):
        # Of a dict its keys alone would be sent, of a set its elements in any order.
        raise TypeError(f"{value!r:.80} is none of the values of a message: give a text, a number, or a list of them")
    kinds = set(map(type, elements))
    if kinds == {str}:
        return Type.STR
    if kinds == {int}:
        return Type.U64 if max(elements) >= _I64_END else Type.I64
    if kinds and kinds <= {int, float}:
        return Type.F64
    raise TypeError(f"{value!r:.80} has no type of its own among those of a message: give one with Message.of")


def _packed(type: Type, elements: Sequence[Any]) -> bytes:
    if type is Type.STR:
        strings = [element.encode("utf-8", "surrogateescape") for element in elements]
        if any(b"\0" in string for string in strings):
            raise ValueError("a string of a message holds no NUL")
        return b"".join([string + b"\0" for string in strings])
    try:
        return struct.pack(f">{len(elements)}{_CODES[type]}", *elements)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"an element is no {type.name}: {error}")
