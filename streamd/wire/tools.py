"""Messages for tools, on Pravega's port beside Pravega's own: segments and records by number, column by column.

The frame is Pravega's: type i32, length i32, payload. The types begin at 10000, where Pravega never had any. Each
payload begins with a request id, 8 bytes of the client's choice, which the reply repeats. Requests and replies are
lists of fields (`streamd.wire.fields`), and both ends are made of the same list; ``docs/protocols/pravega.md`` has
them as tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple, get_args

from streamd.batch import Batch, Buffer
from streamd.views import Run as Run
from streamd.views import SegmentInfo as SegmentInfo
from streamd.wire import WireError, work
from streamd.wire.fields import Encoded, Fixed, Many, Message, Number, Records, Row, from_payload
from streamd.wire.work import COUNTED as _COUNTED
from streamd.wire.work import FIRST_TYPE as FIRST_TYPE
from streamd.wire.work import FLAG as _FLAG
from streamd.wire.work import RECORDS_MAX as RECORDS_MAX
from streamd.wire.work import RUN as _RUN
from streamd.wire.work import SIGNED as _SIGNED
from streamd.wire.work import SMALL as _SMALL
from streamd.wire.work import TEXT as _TEXT
from streamd.wire.work import Change
from streamd.wire.work import GetGroup as GetGroup
from streamd.wire.work import GroupPosition as GroupPosition
from streamd.wire.work import SetGroup as SetGroup

NAMES_MAX: Final = 10_000
"""How many segments one request may name."""

PARTS_MAX: Final = 10_000
"""How many hidden segments may be published, or deleted, at once."""

LEVELS_MAX: Final = 1000
"""How many ack levels may be raised at once."""

SPLIT_MAX: Final = 1000
"""Into how many parts a range of records may be split."""


class Code(IntEnum):
    """Why a request is refused."""

    NO_SUCH_SEGMENT = 1
    SEGMENT_EXISTS = 2
    SEGMENT_SEALED = 3
    RECORDS_TRUNCATED = 4
    BAD_NAME = 5
    LEVEL_MISMATCH = 6
    READ_ONLY = 7
    READ_FAILED = 8
    TOO_LARGE = 9
    BAD_REQUEST = 10
    NOT_ALLOWED = 11
    GROUP_BUSY = 12


class By(IntEnum):
    """The key by which a record is searched for."""

    NUMBER = 0
    OFFSET = 1
    TIMESTAMP = 2


class Existing(IntEnum):
    """What happens to an existing segment of the name."""

    REFUSED = 0
    TAKEN = 1
    REPLACED = 2


class Part(NamedTuple):
    """A hidden segment, and the segment whose records its records become; both by id."""

    hidden: int
    target: int


class LevelChange(NamedTuple):
    """A writer's ack level in a segment, to be raised from an expected value."""

    segment: int
    writer: bytes
    expected: int
    level: int


_INFO: Final = Row(SegmentInfo, _COUNTED, _TEXT, *[_COUNTED] * 4, _SIGNED, _SIGNED, _FLAG)
_PART: Final = Row(Part, _COUNTED, _COUNTED)
_LEVEL: Final = Row(LevelChange, _COUNTED, Fixed(16), _COUNTED, _COUNTED)


# -- requests ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ListSegments(Message):
    """List segments whose name matches a shell pattern, a page at a time, by their ids from above `after`."""

    type = FIRST_TYPE
    fields = (_TEXT, _COUNTED)
    pattern: str
    after: int


@dataclass(frozen=True)
class NameSegments(Message):
    """Describe the segments of these names, as far as they exist."""

    type = FIRST_TYPE + 1
    fields = (Many(_TEXT, NAMES_MAX),)
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        return 256 + 64 * len(self.names)


@dataclass(frozen=True)
class DescribeSegment(Message):
    """Describe the segment of this id."""

    type = FIRST_TYPE + 2
    fields = (_COUNTED,)
    segment: int


@dataclass(frozen=True)
class ReadRecords(Message):
    """Read records from a number on: at least one where there is one, then up to these limits and the daemon's own."""

    type = FIRST_TYPE + 3
    fields = (_COUNTED, _COUNTED, _COUNTED, _SMALL)
    segment: int
    number: int
    records_max: int
    bytes_max: int


@dataclass(frozen=True)
class FindRecord(Message):
    """Find a record by its number, by an offset inside it, or the first one from a time on."""

    type = FIRST_TYPE + 4
    fields = (_COUNTED, Number("B"), _SIGNED)
    segment: int
    by: int
    place: int


@dataclass(frozen=True)
class SplitRecords(Message):
    """Find where to split a range of records into parts of about the same size."""

    type = FIRST_TYPE + 5
    fields = (_COUNTED, _COUNTED, _COUNTED, _SMALL)
    segment: int
    first: int
    end: int
    parts: int


@dataclass(frozen=True)
class MakeSegment(Change):
    """Create a segment, or a hidden one. `existing` says what happens to one of the same name."""

    type = FIRST_TYPE + 6
    fields = (_TEXT, _FLAG, Number("B"))
    name: str
    hidden: bool
    existing: int


@dataclass(frozen=True)
class AppendRecords(Change):
    """Append to a hidden segment whose next record has this number. What is stored already is not stored again."""

    type = FIRST_TYPE + 7
    fields = (_COUNTED, _COUNTED, Records(RECORDS_MAX))
    segment: int
    number: int
    batch: Batch

    @property
    def size(self) -> int:
        return self.batch.size + 4 * self.batch.count


@dataclass(frozen=True)
class PublishSegments(Change):
    """Make hidden segments part of their targets and raise ack levels: all of it, or nothing."""

    type = FIRST_TYPE + 8
    fields = (Many(_PART, PARTS_MAX), Many(_LEVEL, LEVELS_MAX))
    parts: tuple[Part, ...]
    levels: tuple[LevelChange, ...]

    @property
    def size(self) -> int:
        return 256 + 64 * (len(self.parts) + len(self.levels))


@dataclass(frozen=True)
class DeleteHidden(Change):
    """Delete hidden segments, as far as they exist."""

    type = FIRST_TYPE + 9
    fields = (Many(_COUNTED, PARTS_MAX),)
    segments: tuple[int, ...]

    @property
    def size(self) -> int:
        return 256 + 64 * len(self.segments)


@dataclass(frozen=True)
class GetLevel(Message):
    """Ask for a writer's ack level in a segment."""

    type = FIRST_TYPE + 12
    fields = (_COUNTED, Fixed(16))
    segment: int
    writer: bytes


# -- replies -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segments(Message):
    """Descriptions of segments; where there may be more, `after` is for the next request, else 0."""

    type = FIRST_TYPE + 100
    fields = (Many(_INFO, 1 << 20), _COUNTED)
    segments: tuple[SegmentInfo, ...]
    after: int


@dataclass(frozen=True)
class EncodedSegments(Message):
    """A `Segments` message made of rows from `encoded_row`."""

    type = Segments.type
    fields = (Many(Encoded(), 1 << 20), _COUNTED)
    rows: Sequence[bytes]
    after: int


def encoded_row(info: SegmentInfo) -> bytes:
    """The row of a segment in `Segments`."""
    parts: list[Buffer] = []
    _INFO.put(info, parts)
    return b"".join(parts)


@dataclass(frozen=True)
class RecordsRead(Message):
    """Records in runs, and the first retained number and the next number of the segment."""

    type = FIRST_TYPE + 101
    fields = (_COUNTED, _COUNTED, Many(_RUN, 1 << 20))
    first_number: int
    number: int
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class RecordFound(Message):
    """The number of a record, and the offset where it begins."""

    type = FIRST_TYPE + 102
    fields = (_COUNTED, _COUNTED)
    number: int
    offset: int


@dataclass(frozen=True)
class SplitPoints(Message):
    """The first numbers of all parts but the first, ascending; fewer than asked for where there are few records."""

    type = FIRST_TYPE + 103
    fields = (Many(_COUNTED, SPLIT_MAX),)
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class RecordsAppended(Message):
    """The records are stored; the next record has this number."""

    type = FIRST_TYPE + 104
    fields = (_COUNTED,)
    number: int


@dataclass(frozen=True)
class SegmentsPublished(Message):
    """The segments are published; `again` where they had been before."""

    type = FIRST_TYPE + 105
    fields = (_FLAG,)
    again: bool


@dataclass(frozen=True)
class HiddenDeleted(Message):
    """The hidden segments are gone; so many existed."""

    type = FIRST_TYPE + 106
    fields = (_SMALL,)
    count: int


@dataclass(frozen=True)
class LevelFound(Message):
    """A writer's ack level, where it has one."""

    type = FIRST_TYPE + 108
    fields = (_FLAG, _SIGNED)
    known: bool
    level: int


@dataclass(frozen=True)
class Refusal(Message):
    """The request is refused.

    Where records are truncated, number and offset are those of the first retained one; where a level does not match,
    `number` is the stored one.
    """

    type = FIRST_TYPE + 199
    fields = (Number("H"), _SIGNED, _COUNTED, _TEXT)
    code: int
    number: int
    offset: int
    text: str


Request = (
    ListSegments
    | NameSegments
    | DescribeSegment
    | ReadRecords
    | FindRecord
    | SplitRecords
    | MakeSegment
    | AppendRecords
    | PublishSegments
    | DeleteHidden
    | GetLevel
    | work.Request
)
Reply = (
    Segments
    | RecordsRead
    | RecordFound
    | SplitPoints
    | RecordsAppended
    | SegmentsPublished
    | HiddenDeleted
    | LevelFound
    | work.Reply
    | Refusal
)

REQUESTS: Final[dict[int, Any]] = {kind.type: kind for kind in get_args(Request)}
REPLIES: Final[dict[int, Any]] = {kind.type: kind for kind in get_args(Reply)}


def request(kind: int, payload: bytes) -> Request:
    """The request in a message of this type. WireError where it is none."""
    if kind not in REQUESTS:
        raise WireError(f"a message of type {kind} has no place here")
    parsed: Request = from_payload(REQUESTS[kind], payload)
    return parsed
