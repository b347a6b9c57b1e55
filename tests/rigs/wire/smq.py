"""Requests of Simple Message Queue, byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from streamd.wire.smq import Goodbye, Pull, Push, Request

# Type, bytes of an element; Str is apart.
NUMBERS = ((0, 1), (1, 2), (2, 4), (3, 8), (4, 1), (5, 2), (6, 4), (7, 8), (8, 4), (9, 8))
STR = 10
One = tuple[str, int, bytes]
"""A single request: what it is, and of a good push the type and the data."""
PULL: One = ("pull", 0, b"")
BAD: One = ("bad", 0, b"")
GOODBYE: One = ("goodbye", 0, b"")


def push(kind: int, count: int, data: bytes = b"") -> bytes:
    """A push, right or wrong."""
    return struct.pack(">BQBI", 0, 5 + len(data), kind, count) + data


def pull(body: bytes = b"") -> bytes:
    """A pull; a body has no business there."""
    return struct.pack(">BQ", 1, len(body)) + body


def good(kind: int, data: bytes) -> One:
    return ("push", kind, data)


def singles(requests: Iterable[Request]) -> list[One]:
    """The same requests with no two in one."""
    found: list[One] = []
    for request in requests:
        if isinstance(request, Push):
            found += [good(request.tag - 1, bytes(record)) for record in request.batch.records()]
        elif isinstance(request, Goodbye):
            found.append(GOODBYE)
        else:
            found += [PULL if isinstance(request, Pull) else BAD] * request.messages
    return found


# One push of each type, several elements and none, runs, pulls with and without a body, and what is refused.
CONVERSATION: Sequence[tuple[bytes, One]] = (
    *((push(kind, 1, bytes(range(size))), good(kind, bytes(range(size)))) for kind, size in NUMBERS),
    *((push(kind, 2, bytes(2 * size)), good(kind, bytes(2 * size))) for kind, size in NUMBERS),
    *((push(kind, 0), good(kind, b"")) for kind, _ in NUMBERS),
    (push(STR, 0), good(STR, b"")),
    (push(STR, 1, b"\0"), good(STR, b"\0")),
    (push(STR, 2, b"one\0two\0"), good(STR, b"one\0two\0")),
    (pull(), PULL),
    (pull(), PULL),
    (pull(b"of no use"), PULL),
    *[(push(0, 3, b"abc"), good(0, b"abc"))] * 6,
    *[(push(0, 4, b"abc"), BAD)] * 6,
    *[(push(STR, 1, b"ab\0"), good(STR, b"ab\0"))] * 3,
    *[(push(STR, 1, b"abc"), BAD)] * 2,
    (push(STR, 1, b"ab\0"), good(STR, b"ab\0")),
    *[(push(0x20, 1, b"x"), good(0, b"x"))] * 5,
    *[(push(0x10, 1, b"x"), BAD)] * 5,
    *[(struct.pack(">BQ", 0, 0), BAD)] * 5,
    (struct.pack(">BQ", 0, 4) + b"\0\0\0\0", BAD),
    (pull(), PULL),
)
WHOLE = b"".join(frame for frame, _ in CONVERSATION)
