"""The backlog: what a writer of Pravega keeps until the daemon has acknowledged it."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final
from uuid import UUID

from streamd.batch import Batch
from streamd.client.errors import ClientError
from streamd.wire.pravega.documented import BLOCK_BYTES_MAX, AppendBlock

# What a block costs beside its bytes: a million events of one byte each are not a megabyte.
_BLOCK_BYTES: Final = 512


class Backlog:
    """The blocks of one writer that are written and not acknowledged."""

    def __init__(self, writer: UUID, *, replay: bool) -> None:
        self.writer = writer
        self.acknowledged = 0
        """How many bytes of this writer are stored: its ack level, as the daemon gave it last."""
        self.held_bytes = 0
        """How many bytes the blocks take in memory."""
        self._replay = replay
        self._written: int | None = 0 if replay else None
        self._blocks: deque[AppendBlock] = deque()

    @property
    def is_placed(self) -> bool:
        """Whether the backlog knows where the next block begins."""
        return self._written is not None

    @property
    def end(self) -> int:
        """Where the next block begins."""
        return self._written or 0

    def add(self, events: list[bytes]) -> None:
        """Write a block. Events of it that are stored already are left out."""
        assert self._written is not None, "not placed yet"
        block = AppendBlock(self.writer.bytes, self._written, Batch.of(events))
        if block.end - block.offset > BLOCK_BYTES_MAX:
            raise ValueError(f"an event of {max(block.batch.lengths)} bytes is too large for a block")
        self._written = block.end
        self._blocks.append(block)
        self.held_bytes += _held(block)
        self.acknowledge(self.acknowledged)

    def resume(self, level: int) -> None:
        """Go on with a new connection, which begins with this ack level."""
        if self._written is None:
            self._written = level
        if level < self.acknowledged:
            raise ClientError(
                f"the daemon has {level} bytes of this writer and had {self.acknowledged}: "
                "the segment was deleted and made again"
            )
        if level > self._written and not self._replay:
            raise ClientError(f"another client writes as {self.writer}: {level} bytes are stored, not {self._written}")
        self.acknowledge(level)

    def acknowledge(self, level: int) -> None:
        """Forget the events below this ack level: they are stored."""
        self.acknowledged = max(self.acknowledged, level)
        while self._blocks and self._blocks[0].offset < level:
            block = self._blocks.popleft()
            self.held_bytes -= _held(block)
            if block.end <= level:
                continue
            rest = block.above(level)
            if rest is None:
                raise ClientError(
                    f"what is written differs from what is stored: no event of {self.writer} ends at {level}"
                )
            self._blocks.appendleft(rest)
            self.held_bytes += _held(rest)

    def following(self, offset: int) -> list[AppendBlock]:
        """Return the blocks from this offset on."""
        behind = 0
        for block in reversed(self._blocks):
            if block.offset < offset:
                break
            behind += 1
        return list(islice(self._blocks, len(self._blocks) - behind, None))


def _held(block: AppendBlock) -> int:
    return block.end - block.offset + _BLOCK_BYTES
