"""One law for every codec: what comes in is the same wherever TCP cuts it, and nothing breaks it badly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from streamd.wire import Codec, WireError

T = TypeVar("T")

TEXT = st.characters(codec="utf-8", exclude_characters="\n")
"""Every character that UTF-8 has a form for, but for the newline."""


class CutLaws:
    """A codec of requests: what comes in is the same requests wherever TCP cuts it. For a test case to inherit."""

    whole: bytes
    """Requests of every kind."""
    expected: list[object]
    """The same, as `plain` tells them."""

    assertEqual: Callable[..., None]

    def codec(self) -> Codec:
        """A new one."""
        raise NotImplementedError

    def plain(self, requests: Iterable[Any]) -> list[object]:
        """Requests as values that can be compared, whichever of them came as one."""
        raise NotImplementedError

    def received(self, *pieces: bytes) -> list[object]:
        """What the codec makes of these pieces. Nothing is left over."""
        codec = self.codec()
        found: list[object] = []
        for piece in pieces:
            found += self.plain(codec.receive(piece))
        if codec.error is not None:
            raise codec.error
        self.assertEqual(codec.buffered, 0)
        return found

    def test_at_once(self) -> None:
        """All in one read."""
        self.assertEqual(self.received(self.whole), self.expected)

    def test_cut_anywhere(self) -> None:
        """In two reads, wherever the cut is."""
        for place in range(len(self.whole)):
            self.assertEqual(self.received(self.whole[:place], self.whole[place:]), self.expected, place)

    def test_byte_by_byte(self) -> None:
        """And if it comes byte by byte."""
        pieces = [self.whole[at : at + 1] for at in range(len(self.whole))]
        self.assertEqual(self.received(*pieces), self.expected)


class Replies(Protocol):
    """A codec of what a daemon sends."""

    error: WireError | None

    @property
    def buffered(self) -> int: ...

    def receive(self, data: bytes) -> list[Any]: ...


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """The data in pieces, cut at these places."""
    ends = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(ends)]


def received(make: Callable[[], Replies], pieces: Sequence[bytes]) -> tuple[list[Any], str | None, int]:
    """The replies in these pieces; what is wrong with them; what is left over."""
    codec = make()
    found: list[Any] = []
    for piece in pieces:
        if codec.error is None:
            found += codec.receive(piece)
    return found, None if codec.error is None else str(codec.error), codec.buffered


def made(kind: Callable[..., T], *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Whatever `kind` makes of these parts, and of no others: `builds` would find values for its defaults too."""
    return st.tuples(*parts).map(lambda values: kind(*values))
