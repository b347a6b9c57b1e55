"""One law for every codec of replies: what comes in is the same wherever TCP cuts it, and nothing breaks it badly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from streamd.wire import WireError

T = TypeVar("T")

TEXT = st.characters(codec="utf-8", exclude_characters="\n")
"""Every character that UTF-8 has a form for, but for the newline."""


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
