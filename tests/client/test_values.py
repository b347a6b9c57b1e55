"""Messages of Simple Message Queue as Python values."""

from __future__ import annotations

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.client.values import Message, Type, Value

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
INT = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(allow_nan=False)
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.binary(max_size=9),
    TEXT,
    INT,
    FLOAT,
    st.lists(TEXT, min_size=2, max_size=4),
    st.lists(INT, min_size=2, max_size=4),
    st.lists(FLOAT, min_size=2, max_size=4),
)


class ValueTests(SynchronousTestCase):
    def test_no_message(self) -> None:
        """A dict or a set is no message: of the one the keys alone would be sent, of the other any order."""
        for value in ({"a": 1}, {1, 2}, iter([1])):
            self.assertRaises(TypeError, Message.of, value)

    @given(VALUES)
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_identity(self, value: Value) -> None:
        """A value comes out as it went in."""
        found = Message.of(value).value
        self.assertEqual((found, type(found)), (value, type(value)))

    def test_types(self) -> None:
        """Each kind of value has its type, on the wire as the protocol has it."""
        for value, kind, data in (
            (b"ab", Type.U8, b"ab"),
            (bytearray(b"ab"), Type.U8, b"ab"),
            ("ä", Type.STR, b"\xc3\xa4\0"),
            (["a", ""], Type.STR, b"a\0\0"),
            (-2, Type.I64, b"\xff" * 7 + b"\xfe"),
            (2**63, Type.U64, b"\x80" + bytes(7)),
            ([1, 2**64 - 1], Type.U64, bytes(7) + b"\1" + b"\xff" * 8),
            (1.0, Type.F64, b"\x3f\xf0" + bytes(6)),
            ([1, 0.0], Type.F64, b"\x3f\xf0" + bytes(14)),
            (array("H", [1, 258]), Type.U16, b"\0\1\1\2"),
            (array("b", [-1]), Type.I8, b"\xff"),
            (array("f", [1.0]), Type.F32, b"\x3f\x80\0\0"),
        ):
            self.assertEqual(Message.of(value), Message(kind, data), value)

    def test_given_type(self) -> None:
        """A type that is given counts."""
        self.assertEqual(Message.of([1, 2], Type.U16), Message(Type.U16, b"\0\1\0\2"))
        self.assertEqual(Message.of([], Type.I32), Message(Type.I32, b""))
        self.assertEqual(Message.of(b"\1\2", Type.I16).elements, [1, 2])
        self.assertEqual(Message.of(7, Type.F32).value, 7.0)

    def test_refused(self) -> None:
        """What is no message is said to be none."""
        for value in ([], [1, "a"], True, None, object(), [None], {}):
            self.assertRaises(TypeError, Message.of, value)
        for value, kind in (([256], Type.U8), ([-1], Type.U16), (["a"], Type.I8), ("a\0b", Type.STR), (2**64, None)):
            self.assertRaises(ValueError, Message.of, value, kind)
