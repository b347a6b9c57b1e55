"""What can go wrong in the store.

`StoreError`: this request can't be met; answer it and go on. `StoreUnusable`: the store as a whole can't be opened
or can't go on; the process ends.
"""

from __future__ import annotations

from typing import Final

from twisted.logger import LogLevel

from streamd.interfaces import RequestError

SAVE: Final = "Restore a backup, or see what 'streamctl repair' can save"
"""What to do with a store that is damaged."""


class StoreError(RequestError):
    """A request that the store refuses. Nothing was changed."""


class BadName(StoreError, ValueError):
    """A segment name that is empty, too long, holds control characters or is kept for others."""


class NoSuchSegment(StoreError):
    """The segment was never there, or is deleted."""


class SegmentExists(StoreError):
    """A segment of that name is there already."""


class SegmentSealed(StoreError):
    """The segment takes no more records."""


class RecordsTruncated(StoreError):
    """What was asked for lies below the first retained record."""

    def __init__(self, first_number: int, first_offset: int) -> None:
        super().__init__(f"the first retained record is {first_number}, at offset {first_offset}")
        self.first_number = first_number
        self.first_offset = first_offset


class LevelMismatch(StoreError):
    """A writer's append does not begin where its stored ack level says. `stored` is that level."""

    def __init__(self, stored: int | None, expected: int, level: int) -> None:
        super().__init__(f"the writer's ack level is {stored}, the append goes from {expected} to {level}")
        self.stored = stored


class LevelGap(LevelMismatch):
    """The append begins above the stored level: something before it never came."""


class LevelOverlap(LevelMismatch):
    """The append begins below the stored level and ends above it: send what is above."""


class AttributeMismatch(StoreError):
    """Compare-and-set found another value than expected. `stored` is the value that is there, or None."""

    def __init__(self, stored: bytes | None) -> None:
        super().__init__(f"the attribute is {stored!r}")
        self.stored = stored


class RequestTooLarge(StoreError):
    """A batch, name, group or attribute over what one frame of the journal can hold."""


class StoreReadOnly(StoreError):
    """The store takes no writes now: the disk is full, or it is closing."""


def level_of(error: BaseException | None) -> LogLevel:
    """How loud it is logged that somebody was refused something with this error.

    That the disk is full the store says itself, when that begins and ends: each request would say it again.
    """
    level: LogLevel = LogLevel.debug if isinstance(error, StoreReadOnly) else LogLevel.warn
    return level


class ReadFailed(StoreError):
    """The disk gave an error, or bytes that do not match their checksum. They are not served."""


class StoreUnusable(Exception):
    """The store can't be opened. The text says which file, where, and what to do."""


class StoreLocked(StoreUnusable):
    """Another daemon has this data directory."""


class NotAStore(StoreUnusable):
    """The directory holds something else than a store."""


class UnknownVersion(StoreUnusable):
    """The store was written by a version that this one can't read."""


class StoreCorrupt(StoreUnusable):
    """Bytes that were synced are damaged or missing."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(
            f"{path}: damaged at byte {position}: {reason}. This data was synced, so it is not cut off in silence. "
            "Restore a backup, or see what 'streamctl repair' can save, and 'corruption' in docs/operations.md"
        )
        self.path = path
        self.position = position
        self.reason = reason


class BadEntry(Exception):
    """An entry with a right checksum that makes no sense here."""
