"""What the codecs of framed protocols share: input that comes in pieces, and frames that look alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from struct import Struct
from typing import Final, Generic, TypeVar

from streamd.batch import Buffer
from streamd.wire import WireError

R = TypeVar("R")

# Frames that are cut at a time.
_CUT_FRAMES: Final = 256


class FrameCodec(ABC, Generic[R]):
    """Keeps what is not whole yet, and looks at it again when enough of it has come."""

    def __init__(self, wanted: int) -> None:
        self._rest = bytearray()
        self._wanted = wanted
        """How many bytes there must be before it is worth another look: a large frame in many pieces gets one."""
        self.error: WireError | None = None

    @property
    def buffered(self) -> int:
        """Bytes of something that has begun and not ended."""
        return len(self._rest)

    def receive(self, data: bytes | bytearray) -> list[R]:
        """The requests that `data` completes."""
        if self.error is not None:
            raise self.error
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return []
            # Taken over, not copied: a large frame is copied often enough on its way.
            data, self._rest = self._rest, bytearray()
        found: list[R] = []
        try:
            at = self._parse(data, found)
        except WireError as error:
            self.error = error
            self._break()
        else:
            self._rest += data[at:]
        return self._merged(found)

    @abstractmethod
    def _parse(self, data: bytes | bytearray, found: list[R]) -> int:
        """Add the requests that are whole to `found`; returns where they end, and sets what is wanted next.

        Nobody changes `data` any more: a request may keep a view of it.
        """

    def _break(self) -> None:
        """Keep nothing: the peer broke the protocol."""

    def _merged(self, requests: list[R]) -> list[R]:
        """Neighbours that can be one request, as one."""
        return requests


def alike(data: bytes | bytearray, at: int, frame_bytes: int, head_bytes: int) -> int:
    """How many whole frames from `at` on have the same size and header as the first: at least 1.

    Under load most frames look the same. This sees it column by column, without a look at each of them.
    """
    whole = (len(data) - at) // frame_bytes
    head = data[at : at + head_bytes]
    if whole < 4 or frame_bytes < head_bytes or data[at + frame_bytes : at + frame_bytes + head_bytes] != head:
        return 1
    count = tried = 2
    # Only a few more than are alike are looked at, or small runs in a large read would cost its square.
    while count == tried < whole:
        count = tried = min(tried * 32, whole)
        for column, value in enumerate(head):
            values = data[at + column : at + frame_bytes * count : frame_bytes]
            wanted = bytes((value,))
            if values != wanted * count:
                count -= len(values.lstrip(wanted))
    return count


@lru_cache(maxsize=64)
def _cutter(skip: int, size: int, count: int) -> Struct:
    return Struct(f"{skip}x{size}s" * count)


def cut(frames: Buffer, skip: int, size: int) -> Iterator[tuple[bytes, ...]]:
    """What stands in frames of one size behind the first `skip` bytes of each: some hundreds at a time.

    A tuple of many takes less than half the time of a tuple for each. And as who calls this joins them again, they are
    still in the processor's cache: twenty thousand at once take three times as long.
    """
    view = memoryview(frames)
    frame_bytes = skip + size
    rest = len(view) // frame_bytes % _CUT_FRAMES
    begin_rest = len(view) - rest * frame_bytes
    if begin_rest:
        yield from _cutter(skip, size, _CUT_FRAMES).iter_unpack(view[:begin_rest])
    if rest:
        yield _cutter(skip, size, rest).unpack(view[begin_rest:])


def payloads(frames: Buffer, skip: int, size: int) -> bytes:
    """The same end to end."""
    return b"".join([b"".join(some) for some in cut(frames, skip, size)])


def repeated(data: bytes | bytearray, at: int, frame: bytes) -> int:
    """How often this frame stands here in a row: it is known that it does once.

    In steps that grow and shrink: thousands are compared in a few of them.
    """
    count = step = 1
    while step:
        begin = at + len(frame) * count
        if data[begin : begin + len(frame) * step] == frame * step:
            count += step
            step *= 2
        else:
            step //= 2
    return count
