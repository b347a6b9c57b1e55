"""Messages for tools that work with topics: reader groups, publishing, and what an administrator does.

They belong to `streamd.wire.tools`, which has the frame, the types and the table of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from streamd.batch import Batch
from streamd.views import Run
from streamd.wire.fields import Fixed, Flag, Many, Message, Number, Records, Row, Text

FIRST_TYPE: Final = 10_000
"""The types of the messages for tools begin here."""

RECORDS_MAX: Final = 1 << 18
"""How many records one message may have."""

GROUPS_MAX: Final = 1 << 20
NO_WRITER: Final = bytes(16)
"""In the place of a writer's id where records have none."""

COUNTED: Final = Number("q", least=0)
SIGNED: Final = Number("q")
SMALL: Final = Number("I")
TEXT: Final = Text()
FLAG: Final = Flag()
RUN: Final = Row(Run, COUNTED, COUNTED, SIGNED, SMALL, Records(1 << 31))
_NUMBERS: Final = Many(COUNTED, RECORDS_MAX)


class GroupInfo(NamedTuple):
    """A reader group as an administrator sees it."""

    segment: int
    topic: str
    group: str
    position: int
    lag: int
    """How many messages it has still to acknowledge."""
    ranges: int
    outstanding: int
    members: int
    waiting: int
    """Messages that came back, and wait for their time."""
    redeliveries: int
    """Since the daemon started, as dead_letters."""
    dead_letters: int
    rule: str
    """As JSON; empty where there is none."""


_GROUP: Final = Row(GroupInfo, COUNTED, TEXT, TEXT, *[COUNTED] * 8, TEXT)


@dataclass(frozen=True)
class Change(Message):
    """A request whose reply comes when it is on disk."""

    reads = False


# -- reader groups -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GetGroup(Message):
    """Ask for the position of a reader group."""

    type = FIRST_TYPE + 10
    fields = (COUNTED, TEXT)
    segment: int
    group: str


@dataclass(frozen=True)
class SetGroup(Change):
    """Put a reader group at a position: all records below are acknowledged, none above."""

    type = FIRST_TYPE + 11
    fields = (COUNTED, TEXT, COUNTED)
    segment: int
    group: str
    position: int


@dataclass(frozen=True)
class ListGroups(Message):
    """The reader groups of topics whose name fits a shell pattern: of those above `after`, so many at a time."""

    type = FIRST_TYPE + 13
    fields = (TEXT, COUNTED)
    pattern: str
    after: int


@dataclass(frozen=True)
class MoveGroup(Change):
    """Put a reader group at a position, also for those who read in it; refused while any do, unless by `force`."""

    type = FIRST_TYPE + 14
    fields = (COUNTED, TEXT, COUNTED, FLAG)
    segment: int
    group: str
    position: int
    force: bool


@dataclass(frozen=True)
class DropGroup(Change):
    """Forget a reader group; refused while somebody reads in it, unless by `force`."""

    type = FIRST_TYPE + 15
    fields = (COUNTED, TEXT, FLAG)
    segment: int
    group: str
    force: bool


@dataclass(frozen=True)
class SetGroupRule(Change):
    """Set a reader group's rule, as JSON; an empty text lets the daemon's file count again."""

    type = FIRST_TYPE + 16
    fields = (COUNTED, TEXT, TEXT)
    segment: int
    group: str
    rule: str


@dataclass(frozen=True)
class TakeRecords(Message):
    """Records for a member of a reader group, which the connection becomes: those that it has to acknowledge.

    Where there are none, the answer waits for some, so many milliseconds at most. `latest`: a group that is new begins
    behind the last record.
    """

    type = FIRST_TYPE + 17
    fields = (COUNTED, TEXT, FLAG, COUNTED, SMALL, SMALL)
    segment: int
    group: str
    latest: bool
    records_max: int
    bytes_max: int
    milliseconds: int


@dataclass(frozen=True)
class AcknowledgeRecords(Change):
    """These records are done with, whichever member of the group has them."""

    type = FIRST_TYPE + 18
    fields = (COUNTED, TEXT, _NUMBERS)
    segment: int
    group: str
    numbers: tuple[int, ...]

    @property
    def size(self) -> int:
        return 256 + 64 * len(self.numbers)


@dataclass(frozen=True)
class RefuseRecords(Change):
    """These records are to be delivered again: after so many milliseconds or, where that is -1, as the rule says."""

    type = FIRST_TYPE + 19
    fields = (COUNTED, TEXT, _NUMBERS, SIGNED, TEXT)
    segment: int
    group: str
    numbers: tuple[int, ...]
    milliseconds: int
    error: str

    @property
    def size(self) -> int:
        return 256 + 64 * len(self.numbers)


@dataclass(frozen=True)
class LeaveGroup(Change):
    """The connection is no member any more: what it has goes to others, and was not delivered in vain."""

    type = FIRST_TYPE + 20
    fields = (COUNTED, TEXT)
    segment: int
    group: str


# -- topics ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoreRecords(Change):
    """Append to a topic.

    With a writer, the first record is number `sequence` of that writer, and what is stored already is not stored again.
    With a time (microseconds since 1970) above 0 they become visible then.
    """

    type = FIRST_TYPE + 21
    fields = (COUNTED, Fixed(16), COUNTED, COUNTED, Records(RECORDS_MAX))
    segment: int
    writer: bytes
    sequence: int
    due: int
    batch: Batch

    @property
    def size(self) -> int:
        return self.batch.size + 4 * self.batch.count


@dataclass(frozen=True)
class DescribeTopic(Message):
    """How many writers a topic knows, and which rule of retention it has, as JSON."""

    type = FIRST_TYPE + 22
    fields = (COUNTED,)
    segment: int


@dataclass(frozen=True)
class SealTopic(Change):
    """A topic takes no more records."""

    type = FIRST_TYPE + 23
    fields = (COUNTED,)
    segment: int


@dataclass(frozen=True)
class DeleteTopic(Change):
    """Delete a topic with all that belongs to it."""

    type = FIRST_TYPE + 24
    fields = (COUNTED,)
    segment: int


@dataclass(frozen=True)
class TruncateTopic(Change):
    """Drop the records of a topic below a number."""

    type = FIRST_TYPE + 25
    fields = (COUNTED, COUNTED)
    segment: int
    number: int


@dataclass(frozen=True)
class AwaitRecord(Message):
    """Answer when a topic has the record of this number, or never will, or after so many milliseconds."""

    type = FIRST_TYPE + 26
    fields = (COUNTED, COUNTED, SMALL)
    segment: int
    number: int
    milliseconds: int


# -- replies -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupPosition(Message):
    """The position of a reader group, where it exists."""

    type = FIRST_TYPE + 107
    fields = (FLAG, COUNTED)
    known: bool
    position: int


@dataclass(frozen=True)
class GroupList(Message):
    """Reader groups; where there may be more, `after` is what to ask for next, else 0."""

    type = FIRST_TYPE + 109
    fields = (Many(_GROUP, GROUPS_MAX), COUNTED)
    groups: Sequence[GroupInfo]
    after: int


@dataclass(frozen=True)
class Done(Message):
    """It is done, and on disk."""

    type = FIRST_TYPE + 110


@dataclass(frozen=True)
class RecordsTaken(Message):
    """Records in runs, and how often each of them was delivered."""

    type = FIRST_TYPE + 111
    fields = (Many(RUN, 1 << 20), Many(SMALL, RECORDS_MAX))
    runs: tuple[Run, ...]
    deliveries: tuple[int, ...]


@dataclass(frozen=True)
class RecordsSettled(Message):
    """It is done, but for these, which nobody had."""

    type = FIRST_TYPE + 112
    fields = (_NUMBERS,)
    unknown: tuple[int, ...]


@dataclass(frozen=True)
class RecordsStored(Message):
    """They are stored: the first has this number, unless they wait for their time. `again`: they were before."""

    type = FIRST_TYPE + 113
    fields = (COUNTED, FLAG)
    number: int
    again: bool


@dataclass(frozen=True)
class TopicDescribed(Message):
    """A topic, as JSON."""

    type = FIRST_TYPE + 114
    fields = (TEXT,)
    text: str


Request = (
    GetGroup
    | SetGroup
    | ListGroups
    | MoveGroup
    | DropGroup
    | SetGroupRule
    | TakeRecords
    | AcknowledgeRecords
    | RefuseRecords
    | LeaveGroup
    | StoreRecords
    | DescribeTopic
    | SealTopic
    | DeleteTopic
    | TruncateTopic
    | AwaitRecord
)
Reply = GroupPosition | GroupList | Done | RecordsTaken | RecordsSettled | RecordsStored | TopicDescribed
