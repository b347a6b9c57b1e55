"""What the codecs of framed protocols share: input in pieces, and runs of equal frames."""

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
    """Keeps incomplete frames, and parses again when enough bytes have arrived."""

    def __init__(self, wanted: int) -> None:
        self._rest = bytearray()
        self._wanted = wanted
        """How many bytes there must be before parsing again: a large frame in many pieces is parsed once."""
        self.error: WireError | None = None

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete frame."""
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
        requests: list[R] = []
        try:
            at = self._parse(data, requests)
        except WireError as error:
            self.error = error
            self._break()
        else:
            self._rest += data[at:]
        return self._merged(requests)

    @abstractmethod
    def _parse(self, data: bytes | bytearray, requests: list[R]) -> int:
        """Add complete requests to `found`; returns their end, and sets how many bytes are wanted next.

        Nobody changes `data` any more: a request may keep a view of it.
        """

    def _break(self) -> None:
        """Drop the buffered input: the peer broke the protocol."""

    def _merged(self, requests: list[R]) -> list[R]:
        """Merge adjacent requests that can be one."""
        return requests


def alike(data: bytes | bytearray, at: int, frame_bytes: int, head_bytes: int) -> int:
    """How many complete frames from `at` on have the same size and header as the first: at least 1.

    Under load most frames look the same. They are compared column by column, not one by one.
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
    """The bytes behind the first `skip` bytes of each of the frames of one size: some hundreds at a time.

    A tuple of many takes less than half the time of a tuple for each. And as the caller joins them again, they are
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
    """Like `cut`, joined end to end."""
    return b"".join([b"".join(some) for some in cut(frames, skip, size)])


def repeated(data: bytes | bytearray, at: int, frame: bytes) -> int:
    """How often this frame is repeated from here on, where it is known to stand here once.

    The steps of the comparison grow and shrink: thousands of frames take a few of them.
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
