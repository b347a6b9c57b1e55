"""What an archive run is going to write, over a real store: each record in one file, by day, of the size asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from streamd.spark.archives.arrow import ArrowFiles
from streamd.spark.archives.files import Location, partition
from streamd.spark.archives.manifest import Manifest, Output
from streamd.spark.archives.plan import Shape, plan
from streamd.spark.read.path import PathStorage
from streamd.spark.read.places import range_of
from tests.store.case import StoreCase
from tests.store.inline import DIRECTORY

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAYS = ["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-04"]
LARGE = Shape(1 << 30, wait=True)


class PlanTests(StoreCase):
    def setUp(self) -> None:
        super().setUp()
        (self.segment,) = self.create("a")
        for day in DAYS:
            midnight = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * SECOND
            for hour in range(24):
                # The first record of a day is stored at midnight, the last one a microsecond before the next.
                moment = midnight + hour * HOUR + (HOUR - 1 if hour == 23 else 0)
                self.writer.now = moment - 1  # it counts on by one
                self.append(self.segment, b"%d" % hour * 50, b"%d" % hour)
        self.storage = PathStorage(DIRECTORY, disk=self.disk)
        self.addCleanup(self.storage.close)
        self.info = self.storage.segment("a")

    def plan(self, manifest: Manifest, end: int, shape: Shape, today: str) -> tuple[Output, ...]:
        new = range_of(self.info, manifest.end, end) if end > manifest.end else None
        return plan(self.storage, manifest, new, shape, today)

    def empty(self) -> Manifest:
        return Manifest("a", self.info.id, self.info.created, 0, 0)

    def test_days(self) -> None:
        """Each day has its file; those that are over go into place, the last one waits."""
        for today, young in ((DAYS[-1], [False, False, False, True]), ("2026-03-05", [False] * 4)):
            outputs = self.plan(self.empty(), self.info.number, LARGE, today)
            self.assertEqual([each.file.date for each in outputs], DAYS)
            self.assertEqual([(each.file.first, each.file.end) for each in outputs], list(pairwise(range(0, 193, 48))))
            self.assertEqual([each.file.young for each in outputs], young)

    def test_no_wait(self) -> None:
        """Without waiting all goes into place; a clock that is behind holds nothing back either."""
        outputs = self.plan(self.empty(), self.info.number, Shape(1 << 30, wait=False), "2026-01-01")
        self.assertEqual([each.file.young for each in outputs], [False] * 4)

    def test_size(self) -> None:
        """A day that is too large for a file has several, which follow each other."""
        outputs = self.plan(self.empty(), self.info.number, Shape(1000, wait=True), DAYS[-1])
        self.assertGreater(len(outputs), 8)
        self.assertEqual([each.file.first for each in outputs[1:]], [each.file.end for each in outputs[:-1]])
        for each in outputs:
            self.assertEqual(each.file.rows, each.file.end - each.file.first)
            self.assertLess(each.file.bytes, 2000)

    def test_any_steps(self) -> None:
        """In steps of any size the files hold each record once, on its day, and few are young."""
        for step in (1, 3, 7, 50, 100, 192):
            manifest = self.empty()
            while manifest.end < self.info.number:
                end = min(manifest.end + step, self.info.number)
                manifest = manifest.done(self.plan(manifest, end, Shape(1500, wait=True), "2026-01-01"), 0.0)
                self.assertEqual(manifest.end, end)
                self.assertEqual(
                    [file.first for file in manifest.files[1:]], [file.end for file in manifest.files[:-1]]
                )
                self.assertLess(len(manifest.young), 10)
            manifest = manifest.done(self.plan(manifest, manifest.end, LARGE, "2026-03-05"), 0.0)
            self.assertEqual((manifest.young, manifest.files[-1].end), ([], self.info.number))
            for file in manifest.files:
                days = {DAYS[number // 48] for number in range(file.first, file.end)}
                self.assertEqual(days, {file.date})
            self.assertEqual(self.plan(manifest, manifest.end, LARGE, "2026-03-05"), ())


class FilesTests(StoreCase):
    def test_names(self) -> None:
        """Directories are named as Hive and Spark name them."""
        names = {"a": "a", "a b": "a b", "a/b": "a%2Fb", "50%": "50%25", "größe": "größe", "x=[*]?": "x%3D%5B%2A%5D%3F"}
        for name, expected in names.items():
            self.assertEqual(partition("topic", name), f"topic={expected}")

    def test_once(self) -> None:
        """A file is created once, whole, and leaves nothing else behind."""
        files = ArrowFiles(Location(self.mktemp()))
        files.create("a/b", b"one")
        self.assertRaises(FileExistsError, files.create, "a/b", b"two")
        self.assertEqual((files.names("a"), files.read("a/b")), (["b"], b"one"))

        def fails(file: object) -> None:
            raise ValueError

        self.assertRaises(ValueError, files.put, "a/b", fails)
        self.assertEqual((files.names("a"), files.read("a/b"), files.names("none")), (["b"], b"one", []))
        # What a run leaves that is killed.
        left = [f"a/{name}" for name in (".b.1", ".b.2", ".c.1")]
        for path in left:
            Path(files.at(path)).touch()
        files.sweep("a/b")
        self.assertEqual(files.names("a"), [".c.1", "b"])
        files.delete("a/b")
        files.delete("a/b")
        self.assertEqual(files.names("a"), [".c.1"])
