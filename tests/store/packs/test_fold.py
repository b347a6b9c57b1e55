"""Folding journal files into packs, and merging packs: what comes out, how much of it, and what is left behind."""

from __future__ import annotations

from dataclasses import replace

from streamd.batch import Batch
from streamd.store import ReadFailed, StoreUnusable
from streamd.store.packs import fold as folding
from streamd.store.packs.pack import BLOCK_BYTES, SHARED, file_name
from streamd.store.room import PACK_BYTES_MAX
from tests.rigs.store.folded import FoldCase
from tests.rigs.store.inline import PACKS, Compactor
from tests.rigs.store.model import contents

KIB = 1 << 10


class FoldTests(FoldCase):
    """What a fold makes of journal files."""

    def test_small_commits_become_blocks(self) -> None:
        """Many small commits to a segment become a few blocks of about 256 KiB, and each segment has its own."""
        a, b = self.create("a", "b")
        for number in range(600):
            self.append(a, b"%04d" % number * 256)
            self.append(b, b"small")
        rows = self.fold()
        of_a = [row for row in rows if row.segment == a.id]
        of_b = [row for row in rows if row.segment == b.id]
        self.assertEqual(len(of_a), 3)
        self.assertEqual(len(of_b), 1)
        for row in of_a[:-1]:
            self.assertGreater(row.length, BLOCK_BYTES * 0.9)
            self.assertLess(row.length, BLOCK_BYTES * 1.1)
        self.assertEqual(sum(row.records for row in of_a), 600)
        self.assertEqual(self.records("a"), [b"%04d" % number * 256 for number in range(600)])
        self.assertEqual(self.records("b"), [b"small"] * 600)

    def test_huge_records(self) -> None:
        """A record larger than a block is a block of its own, and comes back whole."""
        (a,) = self.create("a")
        huge = [bytes([each]) * (700 * KIB) for each in range(3)]
        self.append(a, b"before", *huge, b"behind")
        rows = self.fold()
        self.assertEqual([row.records for row in rows if row.length > 600 * KIB], [1, 1, 1])
        self.assertEqual(self.records("a"), [b"before", *huge, b"behind"])

    def test_same_tags_and_times(self) -> None:
        """Runs of tag and time come back as they were."""
        (a,) = self.create("a")
        for tag in (0, 0, 7, 7, 0):
            self.append(a, b"x", b"y", tag=tag)
        before = [(run.number, run.tag, run.timestamp) for run in self.runs("a")]
        self.fold()
        self.assertEqual([(run.number, run.tag, run.timestamp) for run in self.runs("a")], before)

    def test_shared_stays_one(self) -> None:
        """A payload that many segments share is one block, in a fold and through every merge."""
        segments = self.create(*[f"s{each}" for each in range(20)])
        payload = b"p" * (50 * KIB)
        self.do(self.store.fan_out, segments, Batch.of([payload]))
        self.append(segments[0], b"own")
        rows = self.fold()
        shared = [row for row in rows if row.length > len(payload)]
        self.assertEqual(len(shared), 20)
        self.assertEqual(len({row.position for row in shared}), 1)
        self.assertLess(self.pack_bytes(), 2 * len(payload))
        content = self.disk.content(f"{PACKS}/{self.pack_files()[0]}")
        self.assertEqual(int.from_bytes(content[shared[0].position + 8 :][:8], "little"), SHARED)
        for _ in range(3):
            self.compactor.merge(self.compactor.packs())
            self.assertLess(self.pack_bytes(), 2 * len(payload))
            for segment in segments:
                self.assertEqual(self.records(segment.name)[0], payload)

    def test_again(self) -> None:
        """What is folded is not folded again: nothing is written, and nothing changes."""
        (a,) = self.create("a")
        self.append(a, b"x")
        self.fold()
        calls, catalog = self.disk.calls, bytes(self.disk.content("/data/catalog.sqlite"))
        folded = self.compactor.folder.fold(self.store.closed_file)
        self.assertEqual((folded.file, folded.pack), (self.store.closed_file, None))
        self.assertEqual(self.disk.calls, calls)
        self.assertEqual(bytes(self.disk.content("/data/catalog.sqlite")), catalog)

    def test_nothing_live(self) -> None:
        """Files whose records are all gone make a pack without blocks, and count as folded."""
        a, b = self.create("a", "b")
        self.append(a, b"x" * 1000)
        self.append(b, b"y" * 1000)
        self.do(self.store.delete, a)
        self.do(self.store.truncate, b, 1)
        self.assertEqual(self.fold(), [])
        self.assertEqual([each.blocks for each in self.compactor.catalog.packs()], [0])
        self.assertEqual(len(self.files()), 1)
        self.kill()
        self.assertEqual((self.store.names(), self.store.find("b").first_number), (["b"], 1))

    def test_files_go(self) -> None:
        """Journal files that are folded are removed, and memory keeps no rows of them."""
        self.settings = replace(self.settings, journal_file_bytes=8 * KIB, reserve_bytes=KIB)
        self.reopen()
        (a,) = self.create("a")
        for number in range(100):
            self.append(a, b"%d" % number * 200)
        self.assertGreater(len(self.files()), 5)
        before = self.store.unfolded_entries
        self.compactor.fold()
        self.assertEqual(len(self.files()), 1)
        self.assertLess(self.store.unfolded_entries, before / 2)
        self.assertEqual(self.records(a), [b"%d" % number * 200 for number in range(100)])


class FailedFoldTests(FoldCase):
    """A fold or a merge that fails leaves everything as it was, and the next one does it."""

    def setUp(self) -> None:
        super().setUp()
        a, b = self.create("a", "b")
        self.append(a, *[b"%d" % number * 500 for number in range(50)])
        self.do(self.store.fan_out, [a, b], Batch.of([b"shared" * 100]))
        self.reopen()
        self.before = contents(self.store)

    def check(self) -> None:
        """Nothing has changed, for who goes on and for who opens it anew."""
        self.assertEqual(contents(self.store), self.before)
        self.check_pack_files()
        self.kill()
        self.assertEqual(contents(self.store), self.before)

    def test_no_room(self) -> None:
        """Without room for the pack."""
        self.disk.capacity_bytes = self.disk.used_bytes() + 100
        self.assertRaises(OSError, self.compactor.fold)
        self.disk.capacity_bytes = None
        self.check()
        self.compactor.fold()
        self.check()

    def test_no_sync(self) -> None:
        """Where the pack can't be synced."""
        self.disk.syncs_that_fail = 1
        self.assertRaises(OSError, self.compactor.fold)
        self.check()
        self.compactor.fold()
        self.check()

    def test_unreadable(self) -> None:
        """Where the journal can't be read."""
        path = self.files()[0]
        self.disk.break_at(path, 2000)
        self.assertRaises((StoreUnusable, ReadFailed), self.compactor.fold)
        self.disk.mend(path)
        self.check()
        self.compactor.fold()
        self.check()

    def test_damaged_pack(self) -> None:
        """A merge never carries a damaged block on under a new checksum."""
        self.compactor.fold()
        path = f"{PACKS}/{self.pack_files()[0]}"
        self.disk.content(path)[500] ^= 1
        error = self.assertRaises(ReadFailed, self.compactor.merge, self.compactor.packs())
        self.assertIn("pack 1 at", str(error))
        self.disk.content(path)[500] ^= 1
        self.check()
        self.compactor.merge(self.compactor.packs())
        self.check()

    def test_merge_without_room(self) -> None:
        """A merge without room."""
        self.compactor.fold()
        self.disk.capacity_bytes = self.disk.used_bytes() + 100
        self.assertRaises(OSError, self.compactor.merge, self.compactor.packs())
        self.disk.capacity_bytes = None
        self.check()


class SpaceTests(FoldCase):
    """What nobody needs any more is given back."""

    def settle(self) -> None:
        """Fold, and merge until nothing is left to merge."""
        self.fold()
        for _ in range(20):
            if not self.compactor.folder.choose():
                return
            self.compactor.merge()
        self.fail("it merges for ever")

    def test_deleted(self) -> None:
        """The packs of deleted segments go."""
        a, b = self.create("a", "b")
        self.append(a, b"x" * (500 * KIB))
        self.append(b, b"kept")
        self.settle()
        self.do(self.store.delete, self.again(a))
        self.settle()
        self.assertLess(self.pack_bytes(), 1000)
        self.check_pack_files()
        self.assertEqual(self.records("b"), [b"kept"])
        self.do(self.store.delete, self.again(b))
        self.settle()
        self.assertLess(self.pack_bytes(), 2000)
        self.assertEqual({each.blocks for each in self.compactor.catalog.packs()}, {0})

    def test_truncated(self) -> None:
        """So does what was truncated, but for the block that the first retained record is in."""
        (a,) = self.create("a")
        for number in range(40):
            self.append(a, b"%02d" % number * (25 * KIB))
        self.settle()
        full = self.pack_bytes()
        self.do(self.store.truncate, self.again(a), 36)
        self.settle()
        self.assertLess(self.pack_bytes(), full / 4)
        self.assertEqual(self.records("a"), [b"%02d" % number * (25 * KIB) for number in range(36, 40)])

    def test_shared(self) -> None:
        """A shared block stays as long as one segment has it, and goes with the last one."""
        segments = self.create("a", "b", "c")
        self.do(self.store.fan_out, segments, Batch.of([b"p" * (100 * KIB)]))
        for each in ("a", "b"):
            self.settle()
            self.do(self.store.delete, self.store.find(each))
            self.settle()
            self.assertGreater(self.pack_bytes(), 100 * KIB)
            self.assertEqual(self.records("c"), [b"p" * (100 * KIB)])
        self.do(self.store.delete, self.store.find("c"))
        self.settle()
        self.assertEqual({each.blocks for each in self.compactor.catalog.packs()}, {0})

    def test_published_into_what_is_gone(self) -> None:
        """Records that were published into a segment which is deleted in the same fold take no room for long."""
        a, b = self.create("a", "b")
        hidden = self.do(self.store.create, "h", hidden=True)
        self.append(hidden, b"x" * (200 * KIB))
        self.append(b, b"kept")
        self.do(self.store.publish, [(hidden, a)])
        self.do(self.store.delete, a)
        self.settle()
        self.assertLess(self.pack_bytes(), 1000)
        self.assertEqual(self.records("b"), [b"kept"])

    def test_tiers(self) -> None:
        """However many small packs come, few are there, and each byte is written a few times, not each time."""
        (a,) = self.create("a")
        written = 0
        for number in range(40):
            self.append(self.again(a), b"%02d" % number * (10 * KIB))
            self.fold()
            while packs := self.compactor.folder.choose():
                merged = self.compactor.folder.merge(packs)
                assert merged is not None
                self.do(self.store.merged, packs)
                written += len(self.disk.content(f"{PACKS}/{file_name(merged)}"))
        self.assertLessEqual(len(self.pack_files()), 8)
        self.check_pack_files()
        self.assertLess(written, 40 * 20 * KIB * 15)
        self.assertEqual(self.records("a"), [b"%02d" % number * (10 * KIB) for number in range(40)])

    def test_leftovers(self) -> None:
        """A compactor that takes over finds the packs that the last one merged and could not tell of."""
        (a,) = self.create("a")
        for _ in range(2):
            self.append(self.again(a), b"x")
            self.fold()
        old = self.compactor.packs()
        self.compactor.merge(old, told=False)
        self.disk.put(f"{PACKS}/{file_name(100)}.tmp", b"one in the making")
        taken_over = Compactor(self.disk, self.store)
        self.assertEqual(taken_over.folder.leftovers(), old)
        self.do(self.store.merged, old)
        self.check_pack_files()
        self.assertEqual(self.records("a"), [b"x"] * 2)

    def test_limits(self) -> None:
        """A pack is small, or mostly dead, or left alone: the names of the limits say so."""
        self.assertLess(folding._SMALL_PACK_BYTES, PACK_BYTES_MAX)
        self.assertLessEqual(folding._TIER_PACKS, folding._MERGE_PACKS)
