"""What an archive run is going to write, over a real store: each record in one file, of the size asked for."""

from __future__ import annotations

from streamd.spark.archives.delta import File
from streamd.spark.archives.plan import Output, plan
from streamd.spark.read.path import PathStorage
from streamd.spark.read.places import range_of
from tests.rigs.store.case import StoreCase
from tests.rigs.store.inline import DIRECTORY


class PlanTests(StoreCase):
    def setUp(self) -> None:
        super().setUp()
        (segment,) = self.create("a")
        for number in range(200):
            self.append(segment, b"%d" % number * 20)
        self.storage = PathStorage(DIRECTORY, disk=self.disk)
        self.addCleanup(self.storage.close)
        self.info = self.storage.segment("a")

    def plan(self, files: list[File], end: int, file_bytes: int) -> list[Output]:
        first = files[-1].end if files else 0
        return plan(self.storage, files, range_of(self.info, first, end), file_bytes)

    def test_size(self) -> None:
        """What is too large for a file has several, which follow each other."""
        outputs = self.plan([], self.info.number, 1000)
        self.assertGreater(len(outputs), 5)
        self.assertEqual([each.new.first for each in outputs[1:]], [each.new.end for each in outputs[:-1]])
        self.assertEqual((outputs[0].new.first, outputs[-1].new.end), (0, self.info.number))
        for each in outputs:
            self.assertLess(each.new.bytes, 2000)

    def test_any_steps(self) -> None:
        """In steps of any size the files hold each record once, are few, and no record is written often."""
        for step in (1, 3, 7, 50, 100, 200):
            for file_bytes in (1500, 1 << 30):
                self.assert_merged(step, file_bytes)

    def assert_merged(self, step: int, file_bytes: int) -> None:
        files: list[File] = []
        written = 0
        while not files or files[-1].end < self.info.number:
            end = min((files[-1].end if files else 0) + step, self.info.number)
            outputs = self.plan(files, end, file_bytes)
            merged = {file.path for output in outputs for file in output.merged}
            files = [file for file in files if file.path not in merged]
            for output in outputs:
                rows = output.new.end - output.first
                written += rows
                files.append(File(f"{output.first}-{output.new.end}", output.first, output.new.end, rows, 0))
            self.assertEqual([0, *(file.end for file in files)], [*(file.first for file in files), end])
        average = self.info.bytes / self.info.records
        small = [file for file in files if file.rows * average * 2 < file_bytes]
        self.assertLess(len(small), 10)
        self.assertLessEqual(written, 9 * self.info.number)
        for file in files:
            self.assertTrue(file.rows * average <= 1.5 * file_bytes or file.rows == 1)
