"""What the laws share: how one is broken, the bounds on memory, and an input that says where it is to be cut."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

# What decoding may take beside a multiple of its input: the decoder itself, and what Python keeps for later.
_MEMORY_BYTES: Final = 256 << 10
_MEMORY_FACTOR: Final = 100

_CUT_BYTES: Final = 2
_CUTS_MAX: Final = 15


class LawBroken(Exception):
    """A decoder did what it must not do, whatever it was given."""


def hold(holds: bool, text: str) -> None:
    """Say which law is broken where one is."""
    if not holds:
        raise LawBroken(text)


@contextmanager
def bounded_memory(given_bytes: int, is_traced: bool) -> Iterator[None]:
    """Nothing in here may take much more memory than it was given bytes: a size that is declared is only a claim.

    To trace it takes time, so it is not done always.
    """
    if not is_traced:
        yield
        return
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    limit = _MEMORY_BYTES + _MEMORY_FACTOR * given_bytes
    hold(peak <= limit, f"{given_bytes} bytes made it take {peak} bytes of memory")


def cut(data: bytes) -> tuple[bytes, list[bytes]]:
    """What an input of the fuzzer stands for: some bytes, and the same in pieces.

    The first byte says how many cuts there are, two bytes each where they are; the rest is what is cut.
    """
    count = data[0] % (_CUTS_MAX + 1) if data else 0
    begin = 1 + _CUT_BYTES * count
    places, whole = data[1:begin], data[begin:]
    cuts = [int.from_bytes(places[at : at + _CUT_BYTES], "big") for at in range(0, len(places), _CUT_BYTES)]
    ends = sorted(place % (len(whole) + 1) for place in cuts)
    return whole, [whole[first:last] for first, last in pairwise([0, *ends, len(whole)])]


def uncut(whole: bytes, cuts: Sequence[int] = ()) -> bytes:
    """The input that stands for these bytes, cut at these places."""
    places = b"".join([place.to_bytes(_CUT_BYTES, "big") for place in cuts])
    return bytes((len(cuts),)) + places + whole
