"""Backups: whole and sound whatever the daemon does meanwhile, shared packs, and no way to restore half of one."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.store import Store, StoreUnusable
from streamd.store.disk import Disk
from streamd.store.errors import NotAStore, StoreCorrupt
from streamd.store.reading.outside import OutsideReader
from streamd.store.upkeep.backup.files import Backup, BackupError, Manifest, Stored, decode_manifest
from streamd.store.upkeep.backup.restore import check, choose, restore
from streamd.store.upkeep.backup.run import take_backup
from streamd.store.upkeep.problems import Severity
from streamd.store.upkeep.verify.check import verify
from tests.rigs.cli.run import program
from tests.rigs.daemon import Daemon
from tests.rigs.store.inline import SMALL, Compactor, InlineWriter, call, open_inline, result_of
from tests.rigs.store.loaded import LoadedDaemon
from tests.rigs.store.model import contents

SETTINGS = replace(SMALL, journal_file_bytes=4096)


def nothing(more: int) -> None:
    """Nobody looks."""


class BackupCase(SynchronousTestCase):
    """A store on a real disk, with packs and a journal."""

    def setUp(self) -> None:
        self.disk = Disk()
        self.home = os.path.abspath(self.mktemp())
        self.target = os.path.abspath(self.mktemp())
        self.store, self.writer = self.open(self.home)
        self.compactor = Compactor(self.disk, self.store, self.home)
        self.segment = call(self.writer, self.store.create, "a")
        self.count = 0
        self.write(60)
        self.compactor.fold()
        self.write(20)

    def open(self, directory: str) -> tuple[Store, InlineWriter]:
        store, writer = open_inline(self.disk, SETTINGS, directory=directory)
        self.addCleanup(store._on_closed)
        return store, writer

    def write(self, count: int) -> None:
        """So many commits more."""
        for _ in range(count):
            self.count += 1
            call(self.writer, self.store.append, self.segment, Batch.of([b"%d " % self.count * 40]))

    def take(self, name: str, target: str | None = None) -> Manifest:
        return take_backup(self.disk, self.home, target or self.target, name).manifest

    def restored(self, name: str | None = None, target: str | None = None) -> dict[str, Any]:
        """What is in the store that a snapshot restores to; it is sound."""
        backup = Backup(self.disk, target or self.target)
        into = os.path.abspath(self.mktemp())
        restore(self.disk, backup, choose(backup, name), into, nothing)
        self.assertEqual([str(each) for each in verify(self.disk, into) if each.severity is Severity.ERROR], [])
        store, _ = self.open(into)
        return contents(store)


class BackupTests(BackupCase):
    def test_each_moment(self) -> None:
        """Each snapshot restores to what was there when it was taken, whatever came later."""
        found = {}
        for round_ in range(6):
            name = str(round_)
            self.take(name)
            found[name] = contents(self.store)
            self.write(30)
            self.compactor.fold()
            if round_ % 2:
                self.compactor.merge(self.compactor.packs())
        for name, had in found.items():
            self.assertEqual(self.restored(name), had, name)

    def test_stopped(self) -> None:
        """Also of a store that nobody has open, stopped in order or killed."""
        had = contents(self.store)
        self.take("running")
        self.compactor.catalog.close()
        result_of(self.store.close())
        self.take("stopped")
        os.unlink(os.path.join(self.home, "committed"))
        self.take("without committed")
        for name in ("running", "stopped", "without committed"):
            self.assertEqual(self.restored(name), had, name)

    def test_packs_once(self) -> None:
        """A pack is copied once: the second snapshot copies none, and both share the file."""
        first = take_backup(self.disk, self.home, self.target, "1")
        path = os.path.join(self.target, "packs", next(iter(first.manifest.packs)))
        written = os.stat(path).st_mtime_ns
        self.write(1)
        second = take_backup(self.disk, self.home, self.target, "2")
        self.assertEqual(second.manifest.packs, first.manifest.packs)
        self.assertEqual(os.stat(path).st_mtime_ns, written)
        packs = sum(each.bytes for each in first.manifest.packs.values())
        self.assertEqual(first.copied_bytes, first.manifest.size)
        self.assertEqual(second.copied_bytes, second.manifest.size - packs)

    def test_folded_meanwhile(self) -> None:
        """Folds and merges that come at any moment of a backup change nothing of what it has."""
        had = contents(self.store)
        calls: list[str] = []

        class Busy(Disk):
            """Lets the compactor work between any two calls, while it has work."""

            def open(disk, path: str, *, writable: bool) -> Any:
                if path.startswith(self.home) and len(calls) < 40:
                    calls.append(path)
                    self.write(2)
                    self.compactor.fold()
                    if len(calls) % 3 == 0:
                        self.compactor.merge(self.compactor.packs())
                return super().open(path, writable=writable)

        taken = take_backup(Busy(), self.home, self.target, "busy")
        self.assertGreater(len(calls), 3)
        found = self.restored("busy")
        self.assertEqual(taken.manifest.name, "busy")
        kept = len(had["a"][1])
        self.assertGreaterEqual(len(found["a"][1]), kept)
        self.assertEqual(found["a"][1][:kept], had["a"][1])

    def test_forget(self) -> None:
        """Old snapshots are forgotten with the packs that only they need; the others restore."""
        self.take("1")
        self.write(60)
        self.compactor.fold()
        self.compactor.merge(self.compactor.packs())
        had = contents(self.store)
        self.take("2")
        backup = Backup(self.disk, self.target)
        self.assertEqual(backup.forget(1), ["1"])
        self.assertEqual([each.name for each in backup.manifests()], ["2"])
        self.assertEqual(set(os.listdir(backup.packs)), set(choose(backup, None).packs))
        self.assertEqual(self.restored(), had)

    def test_unfinished(self) -> None:
        """What a backup that was killed left behind is no snapshot, and no pack of another."""
        self.take("1")
        name = next(iter(choose(Backup(self.disk, self.target), None).packs))
        shutil.copytree(os.path.join(self.target, "snapshots", "1"), os.path.join(self.target, "snapshots", "2.tmp"))
        for folder in ("1", "2.tmp"):
            shutil.rmtree(os.path.join(self.target, "snapshots", folder), ignore_errors=folder == "2.tmp")
        with open(os.path.join(self.target, "packs", name), "wb") as file:
            file.write(b"half of it")
        self.take("3")
        self.assertEqual(self.restored(), contents(self.store))


class RefusalTests(BackupCase):
    def refused(self, error: type[Exception], text: str, call: Any, *arguments: Any) -> None:
        self.assertIn(text, str(self.assertRaises(error, call, *arguments)))

    def test_targets(self) -> None:
        """A directory that is something else, another store's backup, one inside the store, one in use."""
        strange = os.path.abspath(self.mktemp())
        os.mkdir(strange)
        with open(os.path.join(strange, "mine"), "w") as file:
            file.write("x")
        self.refused(BackupError, "not empty: it holds 'mine'", self.take, "1", strange)
        self.refused(BackupError, "inside the store", self.take, "1", os.path.join(self.home, "backup"))
        self.take("1")
        other = os.path.abspath(self.mktemp())
        self.open(other)
        self.refused(BackupError, "another store", take_backup, self.disk, other, self.target, "1")
        with Backup(self.disk, self.target).locked():
            self.refused(BackupError, "another backup is being written", self.take, "2")
        self.refused(NotAStore, "no store here", take_backup, self.disk, strange, self.target, "1")

    def test_restore(self) -> None:
        """A directory that holds anything is not touched; a missing snapshot is named."""
        self.take("1")
        backup = Backup(self.disk, self.target)
        self.refused(BackupError, "not empty", restore, self.disk, backup, choose(backup, None), self.home, nothing)
        self.refused(BackupError, "the latest is 1", choose, backup, "2")
        self.refused(BackupError, "no backup here", choose, Backup(self.disk, self.home), None)

    def test_damaged_backup(self) -> None:
        """A flipped byte in any file of a backup is found, by a check and by a restore, which leaves no store."""
        self.take("1")
        backup = Backup(self.disk, self.target)
        manifest = choose(backup, None)
        self.assertEqual(check(self.disk, backup, manifest, nothing), [])
        home = os.path.join(backup.snapshots, "1")
        packs = [os.path.join(backup.packs, name) for name in manifest.packs]
        for path in [*[os.path.join(home, name) for name in manifest.files], *packs]:
            self.flip(path)
            self.assertEqual(len(check(self.disk, backup, manifest, nothing)), 1, path)
            into = os.path.abspath(self.mktemp())
            self.refused(BackupError, "damaged", restore, self.disk, backup, manifest, into, nothing)
            self.assertNotIn("identity" if not path.endswith("identity") else "lock", os.listdir(into))
            self.flip(path)
        for name in ("../elsewhere", "journal/../../elsewhere", "/elsewhere"):
            strange = replace(manifest, files={**manifest.files, name: Stored(1, 1)}).encode()
            self.refused(BackupError, "a file that no store has", decode_manifest, "path", strange)
        self.flip(os.path.join(home, "manifest.json"), 40)
        self.refused(BackupError, "damaged", backup.manifests)

    def flip(self, path: str, position: int = 30) -> None:
        with open(path, "r+b") as file:
            file.seek(position)
            (byte,) = file.read(1)
            file.seek(position)
            file.write(bytes([byte ^ 1]))

    def test_damaged_store(self) -> None:
        """A store that is damaged is not backed up as if it were sound."""
        self.compactor.catalog.close()
        result_of(self.store.close())
        journal = os.path.join(self.home, "journal")
        self.flip(os.path.join(journal, sorted(os.listdir(journal))[0]), 200)
        self.refused(StoreCorrupt, "damaged at byte", self.take, "1")
        self.assertEqual(os.listdir(os.path.join(self.target, "snapshots")), [])

    def test_missing_pack(self) -> None:
        """Nor is one that lacks a pack."""
        packs = os.path.join(self.home, "packs")
        os.unlink(os.path.join(packs, min(os.listdir(packs))))
        self.refused(StoreUnusable, "missing", self.take, "1")

    def test_another_history(self) -> None:
        """A store that was restored and went on gives numbers again: its packs are never taken for the old ones."""
        self.take("1")
        self.write(60)
        self.compactor.fold()
        self.take("2")
        backup = Backup(self.disk, self.target)
        into = os.path.abspath(self.mktemp())
        restore(self.disk, backup, choose(backup, "1"), into, nothing)
        self.home = into
        self.store, self.writer = self.open(into)
        self.compactor = Compactor(self.disk, self.store, into)
        self.segment = self.store.find("a")
        # As many bytes as there, so that only what is in the blocks tells them apart.
        self.count = 10
        self.write(60)
        self.compactor.fold()
        known = {name for each in backup.manifests() for name in each.packs}
        self.assertIn(max(os.listdir(os.path.join(into, "packs"))), known)
        self.refused(BackupError, "give a new directory", self.take, "3")
        self.assertIn("a", self.restored("2"))
        fresh = os.path.abspath(self.mktemp())
        self.take("3", fresh)
        self.assertEqual(self.restored("3", fresh), contents(self.store))


class DaemonTests(SynchronousTestCase):
    """A real daemon under load, which folds, merges and truncates all the time."""

    def test_under_load(self) -> None:
        """Each backup restores to a sound store with everything that was acknowledged before it began."""
        target = os.path.abspath(self.mktemp())
        begun: list[dict[str, int]] = []
        with LoadedDaemon(self.mktemp()) as loaded:
            loaded.load()
            loaded.wait_for_folds(3)
            for _ in range(5):
                begun.append({each.topic: each.acknowledged for each in loaded.publishers})
                ended = program("backup", target, "--path", loaded.data, "--json")
                self.assertEqual(ended.status, 0, ended.err)
                loaded.wait_for_folds(3)
            loaded.daemon.kill()
            self.assertEqual(loaded.join(), [])
            publishers = {each.topic: each for each in loaded.publishers}
        manifests = Backup(Disk(), target).manifests()
        self.assertEqual(len(manifests), len(begun))
        self.assertGreater(len({name for each in manifests for name in each.packs}), 1)
        for manifest, acknowledged in zip(manifests, begun, strict=True):
            into = os.path.abspath(self.mktemp())
            ended = program("restore", target, into, "--snapshot", manifest.name)
            self.assertEqual((ended.status, ended.err), (0, ""), ended.text)
            self.assertIn("sound", ended.text)
            with OutsideReader(into) as reader:
                for topic, publisher in publishers.items():
                    info = reader.segment(topic)
                    self.assertLessEqual(acknowledged[topic], info.number)
                    self.assertLessEqual(info.number, publisher.sent)
                    at = info.first_number
                    for run in reader.read(topic, at):
                        for record in run.batch.records():
                            self.assertEqual(bytes(record), publisher.line(at))
                            at += 1
                    self.assertEqual(at, info.number)
        self.check_serves(into, "one", reader_end=info.number)

    def check_serves(self, data: str, topic: str, reader_end: int) -> None:
        """A daemon opens what was restored, and goes on with it."""
        home = os.path.abspath(self.mktemp())
        with Daemon(home, "--data-dir", data) as daemon, daemon.connect() as connection:
            with connection.makefile("rwb") as stream:
                stream.write(f"@{topic}\n>after the restore\n?{topic}\n".encode())
                stream.flush()
                replies = [stream.readline() for _ in range(3)]
            self.assertEqual(replies[:2], [b"+\n", b"+\n"])
            self.assertNotIn("torn", daemon.output)
