"""Every format that was ever released opens, and holds what it held."""

from __future__ import annotations

import json
import os
import shutil

from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.store.directory import read_identity
from streamd.store.disk import Disk
from streamd.store.journal.frame import FILE_HEADER, VERSION, FileHeader, Kind, decode_file_header
from streamd.store.journal.scan import Scanner
from streamd.store.packs.catalog import Catalog
from streamd.store.reading.outside import OutsideReader
from tests.rigs.store.inline import Compactor, call, open_inline, result_of
from tests.store.golden.make import HERE, KEPT, SETTINGS, describe, make

VERSIONS = sorted(name for name in os.listdir(HERE) if name.startswith("v"))


class GoldenTests(SynchronousTestCase):
    """The stores in the folder golden."""

    def copy(self, version: str) -> str:
        """A copy of a golden store, to be opened."""
        target: str = self.mktemp()
        shutil.copytree(os.path.join(HERE, version, "store"), target)
        return target

    def test_there_is_one(self) -> None:
        """The current format has its folder."""
        self.assertIn(f"v{VERSION}", VERSIONS)

    def test_opens(self) -> None:
        """A golden store holds what it held; also when it is opened again, and after it was written to."""
        for version in VERSIONS:
            with open(os.path.join(HERE, version, "expected.json"), encoding="utf-8") as file:
                expected = json.load(file)
            directory = self.copy(version)
            for _ in range(3):
                store, writer = open_inline(Disk(), SETTINGS, directory=directory)
                self.assertEqual(describe(store), expected)
                result_of(store.close())
            store, writer = open_inline(Disk(), SETTINGS, directory=directory)
            plain = store.find("plain")
            number = plain.number
            call(writer, store.append, plain, Batch.of([b"new"]))
            result_of(store.close())
            store, writer = open_inline(Disk(), SETTINGS, directory=directory)
            (run,) = result_of(store.read(store.find("plain"), number, bytes_max=10))
            self.assertEqual(run.batch.records(), [b"new"])
            result_of(store.close())

    def test_goes_on(self) -> None:
        """What later formats brought can be used in an older store."""
        for version in VERSIONS:
            directory = self.copy(version)
            store, writer = open_inline(Disk(), SETTINGS, directory=directory)
            call(writer, store.create, "faststream/8")
            call(writer, store.broadcast, Batch.of([b"new"]))
            result_of(store.close())
            store, writer = open_inline(Disk(), SETTINGS, directory=directory)
            compactor = Compactor(Disk(), store, directory)
            compactor.fold()
            (run,) = result_of(store.read(store.find("faststream/8"), 0, bytes_max=10))
            self.assertEqual(run.batch.records(), [b"new"])
            compactor.catalog.close()
            result_of(store.close())

    def test_outside(self) -> None:
        """Who may only read sees it too, as it is, before any daemon has opened it."""
        for version in VERSIONS:
            with open(os.path.join(HERE, version, "expected.json"), encoding="utf-8") as file:
                expected = json.load(file)
            with OutsideReader(self.copy(version)) as reader:
                for segment in reader.segments():
                    runs = reader.read(segment.id, segment.first_number)
                    records = [bytes(each) for run in runs for each in run.batch.records()]
                    self.assertEqual(
                        [record.hex() for record in records],
                        [data for *_, data in expected[segment.name]["records"]],
                    )

    def test_every_kind(self) -> None:
        """The current one holds every kind of entry, in at least two files, and is small."""
        journal = os.path.join(HERE, f"v{VERSION}", "store", "journal")
        kinds = set()
        files = sorted(os.listdir(journal))
        for name in files:
            path = os.path.join(journal, name)
            self.assertLess(os.path.getsize(path), 10_000)
            file = Disk().open(path, writable=False)
            header = decode_file_header(file.read(0, FILE_HEADER.size))
            assert isinstance(header, FileHeader)
            kinds |= {entry.kind for frame in Scanner(file, header).frames() for entry in frame.headers}
        self.assertEqual(kinds, set(Kind))
        self.assertGreaterEqual(len(files), 2)

    def test_packs(self) -> None:
        """The current one has packs, with a block that segments share, and a catalog of one small file."""
        store = os.path.join(HERE, f"v{VERSION}", "store")
        self.assertEqual(sorted(os.listdir(store)), sorted(KEPT))
        directory = self.copy(f"v{VERSION}")
        catalog = Catalog(Disk(), directory, read_identity(Disk(), directory), writable=False)
        rows = list(catalog.extents_of_packs(each.number for each in catalog.packs()))
        self.assertGreaterEqual(len({row.pack for row in rows}), 2)
        self.assertLess(len({(row.pack, row.position) for row in rows}), len(rows))
        self.assertTrue(any(segment.hidden for segment in catalog.segments()))
        catalog.close()

    def test_made_anew(self) -> None:
        """What this version writes for the same requests is the same store, but for its marks and its uuid."""
        target = self.mktemp()
        os.mkdir(target)
        make(target)
        with open(os.path.join(target, "expected.json"), encoding="utf-8") as file:
            made = json.load(file)
        with open(os.path.join(HERE, f"v{VERSION}", "expected.json"), encoding="utf-8") as file:
            self.assertEqual(made, json.load(file))
