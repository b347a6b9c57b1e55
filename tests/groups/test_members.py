"""Members of a reader group: who gets what, what is outstanding, who is woken."""

from __future__ import annotations

import gc
from dataclasses import replace

from streamd.batch import Batch
from streamd.config import Config
from streamd.daemon.reload import Reloader
from streamd.settings import Limits, LogSettings, StoreSettings
from streamd.store import NoSuchSegment, StoreReadOnly
from streamd.store.journal.frame import Kind
from tests.rigs.groups.members import MembersCase, Reader


class SharingTests(MembersCase):
    def test_each_to_one(self) -> None:
        """Records go to one member each, and those who wait get equal shares."""
        readers = [Reader(self) for _ in range(3)]
        for reader in readers:
            reader.read()
        self.add(9)
        self.turn()
        self.assertEqual(sorted(len(reader.got) for reader in readers), [2, 3, 4])
        self.assertEqual(sorted(number for reader in readers for number in reader.got), list(range(9)))

    def test_woken_in_turn(self) -> None:
        """One record wakes one member, the one that has waited longest: the others are not even looked at."""
        readers = [Reader(self) for _ in range(10)]
        for reader in readers:
            reader.read()
        for _ in range(25):
            self.add(1)
        self.assertEqual([reader.wakes for reader in readers], [3] * 5 + [2] * 5)
        self.assertEqual([len(reader.got) for reader in readers], [3] * 5 + [2] * 5)

    def test_one_wait(self) -> None:
        """However many members wait, the group waits once; when the last one leaves, not at all."""
        readers = [Reader(self) for _ in range(10)]
        for reader in readers:
            reader.read()
        self.assertEqual(len(self.segment.waiters or ()), 1)
        for reader in readers:
            reader.member.leave()
        self.assertEqual(len(self.segment.waiters or ()), 0)

    def test_busy_members(self) -> None:
        """Who is woken and can't take leaves it to the next."""
        first, second = Reader(self), Reader(self)
        first.read()
        second.read()
        first.busy = True
        self.add(4)
        self.turn()
        self.assertEqual((first.got, second.got), ([], [0, 1, 2, 3]))

    def test_everything_for_everybody(self) -> None:
        """In a group without a name each gets all; nothing of it is on disk."""
        self.add(3)
        readers = [Reader(self, ""), Reader(self, ""), Reader(self, "", latest=True)]
        for reader in readers:
            reader.read()
        self.add(2)
        self.turn()
        self.assertEqual([reader.got for reader in readers], [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [3, 4]])
        self.assertEqual(self.acknowledge(readers[0], 0, 1, 7), frozenset({7}))
        self.assertEqual(self.acknowledge(readers[0], 0, 1), frozenset())
        self.assertIsNone(self.segment.groups)

    def test_start(self) -> None:
        """A new group begins at the first record, or behind the last; then it is where it was, also after a crash."""
        self.add(5)
        early, late = Reader(self, "early"), Reader(self, "late", latest=True)
        self.add(2)
        self.assertEqual((early.read(), late.read()), ([0, 1, 2, 3, 4, 5, 6], [5, 6]))
        self.restart()
        self.add(1)
        for start in (False, True):
            late = Reader(self, "late", latest=start)
            self.assertEqual(late.read(), [5, 6, 7])
            late.member.leave()

    def test_start_on_disk(self) -> None:
        """Nobody joins a group that begins behind the last record before that is on disk."""
        self.add(5)
        joins = [self.groups.join(self.segment, "late", lambda: None, latest=True) for _ in range(2)]
        for join in joins:
            self.assertNoResult(join)
        self.writer.run()
        self.assertEqual([self.successResultOf(join).take(9) for join in joins], [None, None])

    def test_deleted(self) -> None:
        """When the segment is deleted all who wait are woken: to see that."""
        readers = [Reader(self) for _ in range(3)]
        for reader in readers:
            reader.read()
        self.do(self.store.delete, self.segment)
        self.assertEqual([reader.wakes for reader in readers], [1, 1, 1])

    def test_let_go(self) -> None:
        """A group that nobody reads in is forgotten; but not while something acknowledged is on its way to the disk."""
        self.add(3)
        reader = Reader(self, at_once=1)
        first = reader.member.take(2)
        assert first is not None
        reader.member.done(*first)
        reader.member.leave()
        del reader
        gc.collect()
        again = self.groups.join(self.segment, "g", lambda: None)
        self.assertEqual(self.successResultOf(again).take(5), (2, 3), "what is on its way is not given out again")
        self.writer.run()
        del again
        gc.collect()
        self.assertEqual(list(self.groups._known), [])


class OutstandingTests(MembersCase):
    def test_limits(self) -> None:
        """A member has only so many records, and all together too; an acknowledgement makes room."""
        self.add(200)
        readers = [Reader(self) for _ in range(3)]
        for reader in readers:
            reader.read()
        self.assertEqual([len(reader.got) for reader in readers], [20, 20, 10])
        self.assertEqual(self.members().outstanding_records, 50)
        for _ in range(3):
            self.turn()
        self.acknowledge(readers[0], *range(5))
        self.assertEqual(self.members().outstanding_records, 50)
        self.assertEqual(sum(len(reader.got) for reader in readers), 55)
        self.acknowledge(readers[2], *readers[2].got[:10])
        self.assertEqual(sum(len(reader.got) for reader in readers), 65)

    def test_bytes(self) -> None:
        """The same in bytes."""
        self.limits = Limits(outstanding_bytes_max=100, group_outstanding_bytes_max=140)
        self.begin()
        self.add(100)
        one, two = Reader(self, at_once=1), Reader(self, at_once=1)
        self.assertEqual((len(one.read()), len(two.read())), (10, 4))
        self.acknowledge(one, 0, 1, 2)
        self.assertEqual((one.member.bytes + two.member.bytes), 140)

    def test_acknowledge(self) -> None:
        """What is acknowledged again is acknowledged; what nobody ever had is not."""
        self.add(10)
        reader = Reader(self, at_once=2)
        reader.deliver(reader.member.take(4) or (0, 0))
        self.assertEqual(self.acknowledge(reader, 0, 2), frozenset())
        self.assertEqual(self.acknowledge(reader, 2, 2, 0, 3, 4, 1 << 62), frozenset({4, 1 << 62}))
        self.assertEqual(self.members().outstanding_records, 1)
        self.restart()
        again = Reader(self)
        self.assertEqual(again.read(), [1, 4, 5, 6, 7, 8, 9])

    def test_one_entry(self) -> None:
        """Acknowledgements that arrive together are one entry of the journal, whoever sends them."""
        self.add(40)
        readers = [Reader(self, at_once=10) for _ in range(4)]
        for reader in readers:
            reader.read()
        # The disk is busy with something else meanwhile.
        self.store.append(self.segment, Batch.of([b"y"]))
        answers = [reader.member.acknowledge([number])[0] for reader in readers for number in reader.got]
        self.writer.run()
        for answer in answers:
            self.successResultOf(answer)
        kinds = [header.kind for header in self.frames()[-1].headers]
        self.assertEqual(kinds, [Kind.GROUP_ACK])
        self.restart()
        self.assertEqual((self.segment.groups or {})["g"].position, 40)

    def test_moved_in_between(self) -> None:
        """A group that is put elsewhere, or dropped, between two acknowledgements of one commit: in that order."""
        self.add(10)
        self.store.append(self.segment, Batch.of([b"y"]))
        self.store.acknowledge(self.segment, "g", [(0, 5)])
        self.store.set_group(self.segment, "g", 1)
        self.store.acknowledge(self.segment, "g", [(1, 3)])
        self.store.acknowledge(self.segment, "h", [(0, 5)])
        self.store.drop_group(self.segment, "h")
        self.store.acknowledge(self.segment, "h", [(0, 1)])
        self.writer.run()
        for _ in range(2):
            positions = {name: each.position for name, each in (self.segment.groups or {}).items()}
            self.assertEqual(positions, {"g": 3, "h": 1})
            self.restart()

    def test_refuse(self) -> None:
        """What is refused comes again, to whoever takes next; then it can be acknowledged by both."""
        self.add(6)
        one, two = Reader(self), Reader(self)
        one.deliver(one.member.take(6) or (0, 0))
        self.assertEqual(one.member.refuse([1, 3, 9])[1], frozenset({9}))
        self.assertEqual(one.member.refuse([1])[1], frozenset(), "it came back already")
        self.assertEqual(two.read(), [1, 3])
        self.assertEqual(self.acknowledge(one, 1), frozenset())
        self.assertEqual((one.member.records, two.member.records), (4, 1))
        self.assertEqual(two.member.refuse([1])[1], frozenset({1}))

    def test_acknowledged_late(self) -> None:
        """Who acknowledges what it gave back, or lost, before somebody else has it, is done with it."""
        self.add(3)
        one = Reader(self)
        one.read()
        one.busy = True
        one.member.refuse([0, 1, 2])
        self.assertEqual(self.acknowledge(one, 1), frozenset())
        two = Reader(self)
        self.assertEqual(two.read(), [0, 2])

    def test_leave(self) -> None:
        """What a member had goes to others, in order, and they are woken for it."""
        self.add(8)
        one, two = Reader(self, at_once=4), Reader(self, at_once=4)
        one.deliver(one.member.take(4) or (0, 0))
        two.read()
        self.acknowledge(one, 2)
        one.member.leave()
        self.turn()
        self.assertEqual(two.got, [4, 5, 6, 7, 0, 1, 3])

    def test_overdue(self) -> None:
        """What is not acknowledged in time goes to another member. Each delivery has its own time."""
        self.add(4)
        one, two = Reader(self), Reader(self)
        one.deliver(one.member.take(2) or (0, 0))
        self.clock.advance(10)
        one.deliver(one.member.take(2) or (0, 0))
        one.member.refuse([1])
        two.read()
        self.assertEqual(two.got, [1])
        self.clock.advance(20)
        self.turn()
        self.assertEqual(two.got, [1, 0])
        self.clock.advance(10)
        self.turn()
        self.assertEqual(two.got, [1, 0, 1, 2, 3], "what the second reader did not acknowledge is overdue too")
        self.acknowledge(two, 0, 1, 2, 3)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_truncated(self) -> None:
        """What is dropped from the segment while it is out need not come back, and can be acknowledged."""
        self.add(6)
        one = Reader(self)
        one.read()
        self.do(self.store.truncate, self.segment, 4)
        self.assertEqual(self.acknowledge(one, 0, 5), frozenset())
        one.busy = True
        one.member.refuse([1, 2, 4])
        self.assertEqual(Reader(self).read(), [4])

    def test_not_taken(self) -> None:
        """An acknowledgement that the store can't take fails, and the record comes again."""
        self.add(2)
        one = Reader(self)
        one.read()
        one.busy = True
        self.do(self.store.delete, self.segment)
        self.assertRaises(NoSuchSegment, one.member.acknowledge, [0])
        self.assertEqual(one.member.records, 1)
        self.assertEqual(self.members().group.returned_records, 1)

    def test_closing(self) -> None:
        """The same where the store is closing; what needs no acknowledgement is only logged."""
        self.add(4)
        one = Reader(self, at_once=1)
        taken = one.member.take(2)
        assert taken is not None
        one.deliver(taken)
        self.close()
        self.assertRaises(StoreReadOnly, one.member.acknowledge, [0])
        one.member.done(2, 3)


class ReloadTests(MembersCase):
    """Limits that change while the group is read in, whether it has a name or is one reader's own."""

    def put(self, **limits: float) -> None:
        """Change these, and have the configuration read again."""
        before = Config("data", LogSettings(), StoreSettings(), self.core.limits, ())
        now = replace(before, limits=replace(before.limits, **limits))  # type: ignore[arg-type]
        Reloader(before, lambda: now, self.core, lambda level: None).reload()
        self.turn()

    def test_more(self) -> None:
        """Who had as much as it might gets more at once, up to each limit in turn."""
        self.add(300)
        for group in ("g", ""):
            reader = Reader(self, group)
            for limits, records in (
                ({}, 20),
                ({"outstanding_records_max": 200}, 50),
                ({"group_outstanding_records_max": 90}, 90),
                ({"group_outstanding_records_max": 1000}, 100),
                ({"outstanding_bytes_max": 1500}, 150),
                ({"outstanding_bytes_max": 1 << 30}, 200),
                ({"outstanding_records_max": 1000, "group_outstanding_bytes_max": 1 << 30}, 300),
            ):
                if limits:
                    self.put(**limits)
                else:
                    reader.read()
                self.assertEqual(len(reader.got), records, (group, limits))
            reader.member.leave()
            self.core.limits = self.limits

    def test_less(self) -> None:
        """Lower ones count for what is taken next."""
        self.add(100)
        for group in ("g", ""):
            reader = Reader(self, group)
            self.assertEqual(len(reader.read()), 20)
            self.put(outstanding_records_max=10)
            self.acknowledge(reader, *reader.got[:5])
            self.assertEqual(len(reader.got), 20)
            self.acknowledge(reader, *reader.got[5:18])
            self.assertEqual(len(reader.got), 28)
            reader.member.leave()
            self.core.limits = self.limits

    def test_time(self) -> None:
        """So does the time to acknowledge, for what is out already: less of it, and more."""
        self.add(4)
        for group in ("g", ""):
            one = Reader(self, group)
            one.deliver(one.member.take(2) or (0, 0))
            self.clock.advance(10)
            one.deliver(one.member.take(2) or (0, 0))
            self.put(ack_seconds_max=5.0)
            self.assertEqual(one.member.records, 2)
            self.put(ack_seconds_max=100.0)
            self.clock.advance(99)
            self.assertEqual(one.member.records, 2)
            self.clock.advance(1)
            self.assertEqual(one.member.records, 0)
            self.assertEqual(self.clock.getDelayedCalls(), [])
            one.member.leave()
            self.core.limits = self.limits


class DescribeTests(MembersCase):
    def test_describe(self) -> None:
        """Position, lag, outstanding records and members: of groups that are read in and of those that are not."""
        self.add(10)
        self.do(self.store.acknowledge, self.segment, "idle", [(0, 2), (5, 6)])
        one, two = Reader(self), Reader(self)
        one.read()
        self.acknowledge(one, 0, 1, 2, 8)
        two.read()
        described = self.groups.describe(self.segment)
        shown = ("position", "lag", "ranges", "outstanding", "members")
        self.assertEqual([described["idle"][key] for key in shown], [2, 7, 1, 0, 0])
        self.assertEqual([described["g"][key] for key in shown], [3, 6, 1, 6, 2])
