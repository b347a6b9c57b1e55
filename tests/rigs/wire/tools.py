"""Values of the messages for tools."""

from __future__ import annotations

from hypothesis import strategies as st

from streamd.batch import Batch
from streamd.wire import tools as storage
from streamd.wire import work
from streamd.wire.client.tools import request_bytes


def several(items: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(items, max_size=4).map(tuple)


EACH: list[storage.Request] = [
    storage.ListSegments(1, "orders.*", 5),
    storage.NameSegments(2, ("a", "größe")),
    storage.DescribeSegment(3, 7),
    storage.ReadRecords(4, 7, 100, 1000, 1 << 20),
    storage.FindRecord(5, 7, storage.By.TIMESTAMP, -1),
    storage.SplitRecords(6, 7, 0, 100, 4),
    storage.MakeSegment(7, "hidden", True, storage.Existing.REPLACED),
    storage.AppendRecords(8, 9, 0, Batch.of([b"one", b"", b"three"])),
    storage.PublishSegments(9, (storage.Part(9, 7),), (storage.LevelChange(7, b"w" * 16, 0, 1),)),
    storage.DeleteHidden(10, (9, 10)),
    storage.GetGroup(11, 7, "readers"),
    storage.SetGroup(12, 7, "readers", 50),
    storage.GetLevel(13, 7, b"w" * 16),
    work.ListGroups(14, "*", 0),
    work.MoveGroup(15, 7, "readers", 5, True),
    work.DropGroup(16, 7, "readers", False),
    work.SetGroupRule(17, 7, "readers", "{}"),
    work.TakeRecords(18, 7, "readers", False, 10, 1 << 20, 100),
    work.AcknowledgeRecords(19, 7, "readers", (1, 2)),
    work.RefuseRecords(20, 7, "readers", (3,), -1, "no"),
    work.LeaveGroup(21, 7, "readers"),
    work.StoreRecords(22, 7, b"w" * 16, 0, 0, Batch.of([b"one"])),
    work.DescribeTopic(23, 7),
    work.SealTopic(24, 7),
    work.DeleteTopic(25, 7),
    work.TruncateTopic(26, 7, 1),
    work.AwaitRecord(27, 7, 1, 100),
]
WHOLE = b"".join(map(request_bytes, EACH))
