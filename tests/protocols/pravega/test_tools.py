"""The messages for tools on a real store: what each of them does, what is refused, and nothing told before it is so."""

from __future__ import annotations

import os
from array import array
from fnmatch import fnmatchcase

from streamd.batch import LENGTH_TYPE, Batch
from streamd.protocols.pravega.tools import READ_BYTES_MAX
from streamd.store.records.offsets import TAG_RAW
from streamd.wire import tools as storage
from streamd.wire.client.tools import StorageReplies, request_bytes
from streamd.wire.pravega.documented import Type, message
from streamd.wire.tools import By, Code, Existing, LevelChange, Part
from tests.protocols.laws.pravega import created
from tests.rigs.protocols.pravega_case import OTHER, RECORD_BYTES_MAX, StorageCase
from tests.rigs.wire.pravega import WRITER, block, event, setup, text


class ListTests(StorageCase):
    def test_described(self) -> None:
        """All that is known of a segment, by pattern, by name and by id."""
        self.rig.publish("s", b"one", b"two")
        segment = self.store_segment
        info = storage.SegmentInfo(segment.id, "s", 0, 2, 0, 22, segment.created, segment.modified, False)
        for reply in (
            self.ask(storage.ListSegments, "*", 0),
            self.ask(storage.NameSegments, ["none", "s"]),
            self.ask(storage.DescribeSegment, segment.id),
        ):
            self.assertEqual(reply, storage.Segments(7, (info,), 0))
        self.assertEqual((info.records, info.bytes), (2, 22))
        self.rig.store.seal(segment)
        self.rig.store.truncate(segment, 1)
        self.rig.run()
        (info,) = self.ask(storage.DescribeSegment, segment.id).segments
        self.assertEqual((info.sealed, info.first_number, info.first_offset), (True, 1, 11))

    def test_patterns(self) -> None:
        """A shell pattern for the whole name; hidden segments, and what only the store knows, are never listed."""
        for name in ("orders.eu", "orders.us", "metrics", "faststream/7"):
            self.make(name)
        self.hide("orders.hidden", b"x")
        self.rig.store.broadcast(Batch.of([b"to all"]))
        self.rig.run()
        for pattern, names in (
            ("*", ["s", "orders.eu", "orders.us", "metrics", "faststream/7"]),
            ("orders.*", ["orders.eu", "orders.us"]),
            ("orders.[!e]?", ["orders.us"]),
            ("order", []),
        ):
            found = self.ask(storage.ListSegments, pattern, 0).segments
            self.assertEqual([each.name for each in found], names)
        self.refused(Code.BAD_REQUEST, storage.ListSegments, "*" * 1025, 0)

    def test_pages(self) -> None:
        """Many segments come in several answers, each going on behind the last."""
        for number in range(10_050):
            self.rig.store.create(f"n{number}")
        self.rig.run()
        for pattern, pages in (("n*", 11), ("n1003?", 2)):
            found: list[str] = []
            after = 0
            for left in reversed(range(pages)):
                page = self.ask(storage.ListSegments, pattern, after)
                found += [each.name for each in page.segments]
                after = page.after
                self.assertEqual(bool(after), bool(left))
            self.assertEqual(found, [name for name in self.rig.store.names() if fnmatchcase(name, pattern)])

    def test_pages_of_what_changes(self) -> None:
        """Segments that are deleted while they are listed keep nobody from those that stay, however many."""
        for number in range(6000):
            self.rig.store.create(f"n{number}")
        self.rig.run()
        page = self.ask(storage.ListSegments, "n*", 0)
        for number in range(5900):
            self.rig.store.delete(self.rig.store.find(f"n{number}"))
        self.make("late")
        found: list[str] = []
        while page.after:
            page = self.ask(storage.ListSegments, "*", page.after)
            found += [each.name for each in page.segments]
        self.assertEqual(found, [*(f"n{number}" for number in range(5900, 6000)), "late"])
        self.restart()
        self.assertEqual(len(self.ask(storage.ListSegments, "*", 0).segments), 102)

    def test_unknown(self) -> None:
        """An id is for ever: one that is deleted is not found, whoever has the name by then."""
        old = self.segment
        self.rig.store.delete(self.store_segment)
        self.rig.run()
        self.make("s")
        hidden = self.hide("h", b"x")
        self.assertEqual(self.ask(storage.DescribeSegment, hidden).segments[0].number, 1)
        self.refused(Code.NO_SUCH_SEGMENT, storage.DescribeSegment, old)
        for id in (old, 0, 1 << 62):
            self.refused(Code.NO_SUCH_SEGMENT, storage.ReadRecords, id, 0, 1, 1)
            self.refused(Code.NO_SUCH_SEGMENT, storage.FindRecord, id, By.NUMBER, 0)
            self.refused(Code.NO_SUCH_SEGMENT, storage.SplitRecords, id, 0, 1, 2)
            self.refused(Code.NO_SUCH_SEGMENT, storage.AppendRecords, id, 0, Batch.of([b"x"]))
            self.refused(Code.NO_SUCH_SEGMENT, storage.GetGroup, id, "g")
            self.refused(Code.NO_SUCH_SEGMENT, storage.SetGroup, id, "g", 1)
            self.refused(Code.NO_SUCH_SEGMENT, storage.GetLevel, id, WRITER)
            self.refused(Code.NO_SUCH_SEGMENT, storage.PublishSegments, [Part(hidden, id)], [])
        self.refused(Code.NO_SUCH_SEGMENT, storage.ReadRecords, hidden, 0, 1, 1)


class ReadTests(StorageCase):
    def test_columns(self) -> None:
        """Records come in runs of one tag and time, as they were stored, whoever did so."""
        self.rig.publish("s", b"one", b"", b"three")
        self.rig.store.append(self.store_segment, Batch.of([b"raw"]), tag=TAG_RAW)
        self.rig.run()
        reply = self.ask(storage.ReadRecords, self.segment, 1, 1 << 40, 1 << 20)
        self.assertEqual((reply.first_number, reply.number), (0, 4))
        first, second = reply.runs
        self.assertEqual((first.number, first.offset, first.tag), (1, 11, 0))
        self.assertEqual(first.batch, Batch.of([b"", b"three"]))
        self.assertEqual((second.number, second.offset, second.tag), (3, 32, TAG_RAW))
        self.assertGreaterEqual(second.timestamp, first.timestamp)
        self.assertEqual(self.ask(storage.ReadRecords, self.segment, 4, 9, 9).runs, ())
        self.assertEqual(self.ask(storage.ReadRecords, self.segment, 400, 9, 9).runs, ())

    def test_limits(self) -> None:
        """At least one record, then as many as the request and the daemon allow."""
        self.rig.publish("s", *[b"0123456789"] * 100)
        self.assertEqual(len(self.read(self.segment, 5, records_max=7)), 7)
        self.assertEqual(len(self.read(self.segment, 5, bytes_max=35)), 3)
        self.assertEqual(len(self.read(self.segment, 5, records_max=0, bytes_max=0)), 1)
        self.rig.store.append(self.store_segment, Batch(array(LENGTH_TYPE, [0]) * 300_000, b""))
        for _ in range(8):
            self.rig.publish("s", bytes(READ_BYTES_MAX // 4))
        self.assertEqual(len(self.read(self.segment, 100, bytes_max=1 << 31)), storage.RECORDS_MAX)
        self.assertEqual(len(self.read(self.segment, 300_100, bytes_max=1 << 31)), 4)

    def test_larger_than_a_message(self) -> None:
        """A record that no message has room for is read all the same."""
        record = bytes(range(256)) * (1 << 17)
        self.rig.publish("s", b"before", record)
        self.assertEqual(self.read(self.segment, 1), [record])

    def test_truncated(self) -> None:
        """What is gone is told with what is there."""
        self.rig.publish("s", b"one", b"two", b"three")
        self.rig.store.truncate(self.store_segment, 2)
        self.rig.run()
        for make, values in (
            (storage.ReadRecords, (1, 9, 9)),
            (storage.FindRecord, (By.NUMBER, 1)),
            (storage.FindRecord, (By.OFFSET, 3)),
            (storage.SplitRecords, (0, 3, 2)),
        ):
            told = self.refused(Code.RECORDS_TRUNCATED, make, self.segment, *values)
            self.assertEqual((told.number, told.offset), (2, 22))
        self.assertEqual(self.read(self.segment, 2), [b"three"])

    def test_not_before_commit(self) -> None:
        """Nobody is shown what is not on disk; and who has written it waits for that."""
        self.rig.held = True
        self.rig.store.append(self.store_segment, Batch.of([b"x"]))
        self.assertEqual(self.read(self.segment), [])
        self.assertEqual(self.ask(storage.DescribeSegment, self.segment).segments[0].number, 0)
        asked = [storage.SetGroup(1, self.segment, "g", 1), storage.ReadRecords(2, self.segment, 0, 9, 9)]
        self.assertEqual(self.asked(asked), [])
        self.rig.release()
        position, read = self.taken(self.peer)
        self.assertEqual((position.id, read.id, read.number), (1, 2, 1))

    def test_counted(self) -> None:
        """Records that are read are counted, as those that any other message reads."""
        self.rig.publish("s", b"one", b"three")
        self.read(self.segment)
        self.read(self.segment, 1)
        self.read(self.segment, 2)
        traffic = self.rig.load.traffic_of("pravega")
        self.assertEqual((traffic.read_records, traffic.read_bytes), (3, 13))

    def test_damaged(self) -> None:
        """Bytes that do not match their checksum are not served: the reader is told."""
        self.rig.publish("s", b"y" * 100)
        journal = os.path.join(self.directory, "journal")
        (name,) = os.listdir(journal)
        with open(os.path.join(journal, name), "r+b") as file:
            file.seek(file.read().index(b"y" * 100))
            file.write(b"z")
        self.refused(Code.READ_FAILED, storage.ReadRecords, self.segment, 0, 9, 9)


class PlaceTests(StorageCase):
    def test_every_record(self) -> None:
        """A record's number and its offset tell the same place, any byte of it tells it, and so does its end."""
        records = [b"x" * (number % 7) for number in range(40)]
        offset = 0
        for number, record in enumerate(records):
            self.rig.publish("s", record)
            found = self.ask(storage.FindRecord, self.segment, By.NUMBER, number)
            self.assertEqual((found.number, found.offset), (number, offset))
            for inside in (0, 7 + len(record)):
                found = self.ask(storage.FindRecord, self.segment, By.OFFSET, offset + inside)
                self.assertEqual((found.number, found.offset), (number, offset))
            offset += 8 + len(record)
        for by, place in ((By.NUMBER, 40), (By.OFFSET, offset)):
            found = self.ask(storage.FindRecord, self.segment, by, place)
            self.assertEqual((found.number, found.offset), (40, offset))
            self.refused(Code.BAD_REQUEST, storage.FindRecord, self.segment, by, place + 1)
            self.refused(Code.BAD_REQUEST, storage.FindRecord, self.segment, by, -1)
        self.refused(Code.BAD_REQUEST, storage.FindRecord, self.segment, 3, 0)

    def test_timestamps(self) -> None:
        """The first record of a time or later; the next number where all are earlier."""
        for number in range(20):
            self.rig.publish("s", b"%d" % number, b"its neighbour")
        runs = self.ask(storage.ReadRecords, self.segment, 0, 1 << 40, 1 << 20).runs
        self.assertEqual(len({run.timestamp for run in runs}), 20)
        for run in runs:
            for timestamp, expected in ((run.timestamp, run.number), (run.timestamp + 1, run.number + 2)):
                found = self.ask(storage.FindRecord, self.segment, By.TIMESTAMP, timestamp)
                self.assertEqual(found.number, expected)
        for timestamp, expected in ((-5, 0), (1 << 62, 40)):
            self.assertEqual(self.ask(storage.FindRecord, self.segment, By.TIMESTAMP, timestamp).number, expected)

    def test_split(self) -> None:
        """Parts of about the same size in bytes, in order, within the range."""
        for number in range(400):
            self.rig.publish("s", bytes(number))
        points = self.ask(storage.SplitRecords, self.segment, 100, 400, 4).numbers
        self.assertEqual(len(points), 3)
        sizes = [sum(range(first, end)) for first, end in zip((100, *points), (*points, 400), strict=True)]
        self.assertLess(max(sizes) - min(sizes), 1000)
        for first, end, parts, expected in ((5, 5, 9, ()), (9, 5, 9, ()), (5, 9, 1, ()), (5, 9, 0, ()), (5, 6, 9, ())):
            self.assertEqual(self.ask(storage.SplitRecords, self.segment, first, end, parts).numbers, expected)
        self.assertEqual(self.ask(storage.SplitRecords, self.segment, 5, 8, 9).numbers, (6, 7))
        self.refused(Code.BAD_REQUEST, storage.SplitRecords, self.segment, 5, 401, 2)
        self.refused(Code.TOO_LARGE, storage.SplitRecords, self.segment, 5, 400, storage.SPLIT_MAX + 1)


class MakeTests(StorageCase):
    def test_existing(self) -> None:
        """A name that is taken: refused, or the segment that has it."""
        self.refused(Code.SEGMENT_EXISTS, storage.MakeSegment, "s", False, Existing.REFUSED)
        self.assertEqual(self.make("s", existing=Existing.TAKEN), self.segment)
        self.refused(Code.BAD_REQUEST, storage.MakeSegment, "s", False, Existing.REPLACED)
        self.refused(Code.BAD_NAME, storage.MakeSegment, "", False, Existing.TAKEN)
        self.refused(Code.BAD_NAME, storage.MakeSegment, "a\nb", True, Existing.TAKEN)
        hidden = self.hide("s", b"x")
        self.refused(Code.SEGMENT_EXISTS, storage.MakeSegment, "s", True, Existing.REFUSED)
        self.assertEqual(self.make("s", hidden=True, existing=Existing.TAKEN), hidden)

    def test_replaced(self) -> None:
        """A hidden one is replaced by an empty one; who holds the old one can do nothing with it any more."""
        old = self.hide("h", b"x")
        new = self.make("h", hidden=True, existing=Existing.REPLACED)
        self.assertNotEqual(old, new)
        self.refused(Code.NO_SUCH_SEGMENT, storage.AppendRecords, old, 1, Batch.of([b"y"]))
        self.refused(Code.NO_SUCH_SEGMENT, storage.PublishSegments, [Part(old, self.segment)], [])
        self.assertEqual(self.append(new, 0, b"z"), 1)
        self.assertFalse(self.publish([Part(new, self.segment)]))
        self.assertEqual(self.read(self.segment), [b"z"])
        self.make("h", hidden=True, existing=Existing.REPLACED)

    def test_at_once(self) -> None:
        """Two who make the same segment at once get the same one, when it is on disk."""
        self.rig.held = True
        other = self.rig.connect()
        asked = [storage.MakeSegment(1, "t", False, Existing.TAKEN)]
        self.assertEqual(self.asked(asked) + self.asked(asked, other), [])
        self.rig.release()
        (first,), (second,) = self.taken(self.peer), self.taken(other)
        self.assertEqual(first, second)
        self.assertEqual(first.segments[0].id, self.rig.store.find("t").id)


class HiddenTests(StorageCase):
    def test_append_again(self) -> None:
        """What comes again is acknowledged again and not stored; what leaves a gap, or overlaps, is refused."""
        hidden = self.hide("h", b"one", b"two")
        self.assertEqual(self.append(hidden, 0, b"one", b"two"), 2)
        self.assertEqual(self.append(hidden, 2, b"three"), 3)
        self.assertEqual(self.append(hidden, 2, b"three"), 3)
        self.assertEqual(self.append(hidden, 3), 3)
        for number in (1, 4):
            told = self.refused(Code.LEVEL_MISMATCH, storage.AppendRecords, hidden, number, Batch.of([b"x"] * 3))
            self.assertEqual(told.number, 3)
        self.restart()
        self.assertEqual(self.append(hidden, 2, b"three"), 3)
        self.publish([Part(hidden, self.segment)])
        self.assertEqual(self.read(self.segment), [b"one", b"two", b"three"])

    def test_append_refused(self) -> None:
        """Only to hidden segments, and no record over the limit."""
        self.refused(Code.BAD_REQUEST, storage.AppendRecords, self.segment, 0, Batch.of([b"x"]))
        hidden = self.hide("h")
        large = Batch.of([bytes(RECORD_BYTES_MAX), bytes(RECORD_BYTES_MAX + 1)])
        self.refused(Code.TOO_LARGE, storage.AppendRecords, hidden, 0, large)
        self.assertEqual(self.append(hidden, 0, bytes(RECORD_BYTES_MAX)), 1)

    def test_pipelined(self) -> None:
        """Many appends on their way at once: replies in order, and none before it is on disk."""
        hidden = self.hide("h")
        self.rig.held = True
        asked = [storage.AppendRecords(each, hidden, each, Batch.of([b"%d" % each])) for each in range(100)]
        self.assertEqual(self.asked(asked), [])
        self.rig.release()
        replies = self.taken(self.peer)
        self.assertEqual([(each.id, each.number) for each in replies], [(each, each + 1) for each in range(100)])
        self.publish([Part(hidden, self.segment)])
        self.assertEqual(self.read(self.segment), [b"%d" % each for each in range(100)])

    def test_delete(self) -> None:
        """Hidden ones go, as far as they are there; others are refused."""
        first, second = self.hide("a", b"x"), self.hide("b", b"y")
        self.assertEqual(self.ask(storage.DeleteHidden, [first, first, 12345]).count, 1)
        self.assertEqual(self.ask(storage.DeleteHidden, []).count, 0)
        self.refused(Code.BAD_REQUEST, storage.DeleteHidden, [second, self.segment])
        self.assertEqual([each.id for each in self.rig.store.hidden_segments()], [second])

    def test_delete_what_is_published(self) -> None:
        """What is published, also when that is not on disk yet, stays."""
        hidden = self.hide("h", b"x")
        self.rig.held = True
        other = self.rig.connect()
        self.asked([storage.PublishSegments(1, (Part(hidden, self.segment),), ())])
        self.assertEqual(self.asked([storage.DeleteHidden(2, (hidden,))], other), [])
        self.rig.release()
        self.assertEqual(self.taken(other)[0].count, 0)
        self.assertEqual(self.taken(self.peer), [storage.SegmentsPublished(1, False)])
        self.assertEqual(self.ask(storage.DeleteHidden, [hidden]).count, 0)
        self.restart()
        self.assertEqual(self.read(self.segment), [b"x"])


class PublishTests(StorageCase):
    def test_atomic(self) -> None:
        """Many hidden segments become part of their targets at once, with levels; all is there after a restart."""
        target = self.make("t")
        first, second, third = self.hide("a", b"1", b"2"), self.hide("b", b"3"), self.hide("c", b"4")
        parts = [Part(first, self.segment), Part(second, target), Part(third, self.segment)]
        traffic = self.rig.load.traffic_of("pravega")
        self.assertEqual((traffic.appended_records, traffic.appended_bytes), (0, 0))
        self.assertFalse(self.publish(parts, LevelChange(self.segment, WRITER, 0, 5)))
        self.assertEqual((traffic.appended_records, traffic.appended_bytes), (4, 4))
        for _ in range(2):
            self.assertEqual((self.read_all(self.segment), self.read_all(target)), ([b"1", b"2", b"4"], [b"3"]))
            self.assertEqual(self.ask(storage.GetLevel, self.segment, WRITER).level, 5)
            self.assertEqual(self.rig.store.hidden_segments(), [])
            self.restart()

    def test_again(self) -> None:
        """Where the levels are stored it was done before: nothing is stored, and what was made anew is deleted."""
        level = LevelChange(self.segment, WRITER, 0, 1)
        first = self.hide("a", b"1")
        self.assertFalse(self.publish([Part(first, self.segment)], level))
        target = self.make("t")
        again = self.hide("a", b"1")
        # With segments that are gone, with the same ones made anew, and into others.
        self.assertTrue(self.publish([Part(first, self.segment)], level))
        self.assertTrue(self.publish([Part(again, target)], level))
        self.assertTrue(self.publish([], level))
        self.assertEqual((self.read(self.segment), self.read(target)), ([b"1"], []))
        self.assertEqual(self.rig.store.hidden_segments(), [])
        self.assertEqual(self.rig.load.traffic_of("pravega").appended_records, 1)

    def test_again_while_pending(self) -> None:
        """The same before the first one is on disk: both are told then."""
        hidden = self.hide("h", b"x")
        self.rig.held = True
        other = self.rig.connect()
        request = storage.PublishSegments(1, (Part(hidden, self.segment),), (LevelChange(self.segment, WRITER, 0, 1),))
        self.assertEqual(self.asked([request]) + self.asked([request], other), [])
        self.rig.release()
        self.assertEqual([each.again for each in self.taken(self.peer) + self.taken(other)], [False, True])
        self.assertEqual(self.read(self.segment), [b"x"])

    def test_refused(self) -> None:
        """Where one part can't be done, nothing is."""
        hidden, other = self.hide("h", b"x"), self.hide("o", b"y")
        sealed = self.make("sealed")
        self.rig.store.seal(self.rig.store.find("sealed"))
        self.rig.run()
        good = Part(hidden, self.segment)
        level = LevelChange(self.segment, WRITER, 0, 1)
        for code, parts, levels in (
            (Code.NO_SUCH_SEGMENT, [good, Part(12345, self.segment)], [level]),
            (Code.NO_SUCH_SEGMENT, [good, Part(other, 12345)], [level]),
            (Code.NO_SUCH_SEGMENT, [good, Part(other, hidden)], [level]),
            (Code.NO_SUCH_SEGMENT, [good], [level, LevelChange(12345, WRITER, 0, 1)]),
            (Code.BAD_REQUEST, [Part(self.segment, self.segment)], []),
            (Code.BAD_REQUEST, [good, good], [level]),
            (Code.SEGMENT_SEALED, [good, Part(other, sealed)], [level]),
            (Code.LEVEL_MISMATCH, [good], [LevelChange(self.segment, WRITER, 1, 2)]),
        ):
            self.refused(code, storage.PublishSegments, parts, levels)
        self.assertEqual(self.read(self.segment), [])
        self.assertFalse(self.ask(storage.GetLevel, self.segment, WRITER).known)
        self.assertFalse(self.publish([good], level))
        told = self.refused(
            Code.LEVEL_MISMATCH,
            storage.PublishSegments,
            [Part(other, self.segment)],
            [LevelChange(self.segment, WRITER, 3, 4)],
        )
        self.assertEqual(told.number, 1)
        half = [level, LevelChange(self.segment, OTHER, 0, 1)]
        self.refused(Code.BAD_REQUEST, storage.PublishSegments, [Part(other, self.segment)], half)
        self.assertEqual(self.read(self.segment), [b"x"])

    def test_full_disk(self) -> None:
        """A full disk is told, the connection goes on, and nothing was done."""
        hidden = self.hide("h", b"x")
        self.rig.disk.full = True
        self.refused(Code.READ_ONLY, storage.PublishSegments, [Part(hidden, self.segment)], [])
        for make, values in (
            (storage.AppendRecords, (hidden, 1, Batch.of([b"y"]))),
            (storage.MakeSegment, ("t", False, Existing.TAKEN)),
            (storage.MakeSegment, ("h", True, Existing.REPLACED)),
        ):
            self.refused(Code.READ_ONLY, make, *values)
        self.rig.disk.full = False
        self.rig.advance(5)
        self.assertEqual(self.append(hidden, 1, b"y"), 2)
        self.publish([Part(hidden, self.segment)])
        self.assertEqual(self.read(self.segment), [b"x", b"y"])


class GroupTests(StorageCase):
    def test_position(self) -> None:
        """A group's position is set and told, survives, and is never below the first retained record."""
        self.rig.publish("s", *[b"x"] * 10)
        self.assertEqual(self.ask(storage.GetGroup, self.segment, "g"), storage.GroupPosition(7, False, 0))
        for position in (7, 3):
            told = storage.GroupPosition(7, True, position)
            self.assertEqual(self.ask(storage.SetGroup, self.segment, "g", position), told)
            self.assertEqual(self.ask(storage.GetGroup, self.segment, "g"), told)
        self.restart()
        self.assertEqual(self.ask(storage.GetGroup, self.segment, "g").position, 3)
        self.rig.store.truncate(self.store_segment, 5)
        self.rig.run()
        self.assertEqual(self.ask(storage.GetGroup, self.segment, "g").position, 5)
        self.assertEqual(self.ask(storage.SetGroup, self.segment, "g", 1).position, 5)
        self.refused(Code.BAD_NAME, storage.SetGroup, self.segment, "", 1)

    def test_pipelined(self) -> None:
        """Each of several that come at once is told its own position, as if it had come alone."""
        self.rig.publish("s", *[b"x"] * 10)
        positions = [7, 2, 12, 0, 5]
        for first in (0, 3):
            self.rig.store.truncate(self.store_segment, first)
            told = self.asked([storage.SetGroup(at, self.segment, "g", at) for at in positions])
            self.assertEqual(told, [storage.GroupPosition(at, True, max(at, first)) for at in positions])
            self.assertEqual(self.ask(storage.GetGroup, self.segment, "g").position, 5)

    def test_levels_of_others(self) -> None:
        """An ack level that an append block left is told too."""
        self.assertFalse(self.ask(storage.GetLevel, self.segment, WRITER).known)
        self.peer.ask(setup("s") + block(0, event(b"x")))
        self.assertEqual(self.ask(storage.GetLevel, self.segment, WRITER), storage.LevelFound(7, True, 9))


class ConnectionTests(StorageCase):
    def test_order(self) -> None:
        """Replies come in the order of the requests, between those to Pravega's own messages."""
        asked = (
            request_bytes(storage.MakeSegment(1, "t", False, Existing.REFUSED))
            + message(Type.CREATE_SEGMENT, text("u"))
            + request_bytes(storage.ListSegments(2, "?", 0))
            + message(Type.KEEP_ALIVE, b"x")
        )
        told = self.peer.ask(asked)
        self.assertLess(told.index(created("u")), told.index(message(Type.KEEP_ALIVE, b"x")))
        middle = told[told.index(created("u")) + len(created("u")) :]
        (listed,) = StorageReplies(1 << 20).receive(middle.removesuffix(message(Type.KEEP_ALIVE, b"x")))
        assert isinstance(listed, storage.Segments)
        self.assertEqual([each.name for each in listed.segments], ["s", "t", "u"])

    def test_broken(self) -> None:
        """A broken message costs its own connection, after what came before it was answered, and nobody else."""
        append = request_bytes(storage.AppendRecords(1, 2, 3, Batch.of([b"abc"])))
        self.assertTrue(self.peer.ask(request_bytes(storage.DescribeSegment(1, self.segment)) + append[:-1] + b"x"))
        self.assertTrue(self.peer.closed)
        self.peer = self.rig.connect()
        self.assertEqual(self.read(self.segment), [])

    def test_gone_while_splitting(self) -> None:
        """A peer that goes away while it is being answered leaves no timer behind."""
        self.rig.publish("s", *[b"x"] * 100)
        self.peer.protocol.dataReceived(request_bytes(storage.SplitRecords(1, self.segment, 0, 100, 50)))
        self.peer.drop()
        self.assertFalse(self.rig.clock.getDelayedCalls())
