"""What a store holds is its owner's alone: directories have mode 0700 and files 0600, whatever the umask says.

Otherwise everybody on the machine could read all messages, and hold the locks so that no daemon starts.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import Any

from twisted.internet.testing import EventLoggingObserver
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from streamd.store.disk import Disk
from streamd.store.errors import StoreUnusable
from streamd.store.reading.outside import OutsideReader
from streamd.store.upkeep.backup.files import Backup
from streamd.store.upkeep.backup.restore import choose, restore
from streamd.store.upkeep.backup.run import take_backup
from streamd.store.upkeep.repair.run import Repair
from streamd.tls.server_certificate import local_certificate
from tests.rigs.store.filled import fill
from tests.rigs.store.inline import SMALL, Compactor, InlineWriter, open_inline, result_of

NOBODY = 65534
KINDS = {
    "identity",
    "quic-ca.pem",
    "quic-ca-key.pem",
    "lock",
    "compactor.lock",
    "committed",
    "catalog.sqlite",
    "catalog.sqlite-wal",
    "catalog.sqlite-shm",
    "journal/N.journal",
    "packs/N.pack",
    "quic-certificate.pem",
    "quic-key.pem",
}
"""The files of a store that is open, with their numbers left out."""


def modes(home: str) -> Iterator[tuple[str, int]]:
    """Every directory and file below one, itself included, and who may do what with it."""
    for folder, folders, names in os.walk(home):
        for each in ([folder], folders, names):
            for name in each:
                path = os.path.join(folder, name)
                yield path, stat.S_IMODE(os.stat(path).st_mode)


class PermissionsTests(SynchronousTestCase):
    """On a real disk, in a process that would let everybody do everything."""

    def setUp(self) -> None:
        self.addCleanup(os.umask, os.umask(0))
        self.home: str = os.path.abspath(self.mktemp())
        self.events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(self.events)
        self.addCleanup(globalLogPublisher.removeObserver, self.events)
        self.open()

    def open(self) -> None:
        """Open the store, write into it, and fold some of it."""
        self.store, self.writer = open_inline(Disk(), SMALL, directory=self.home)
        fill(self.store, self.writer)
        self.compactor = Compactor(Disk(), self.store, self.home)
        self.compactor.fold()
        local_certificate(self.home)

    def close(self) -> None:
        """Close it in order."""
        self.compactor.catalog.close()
        result_of(self.store.close())

    def crash(self, writer: InlineWriter) -> None:
        """Leave a tail behind that is torn."""
        path = f"{self.home}/journal/{max(os.listdir(f'{self.home}/journal'))}"
        with open(path, "r+b") as file:
            file.seek(writer.journal.position)
            file.write(b"torn" * 20)

    def check_private(self, home: str) -> set[str]:
        """Nobody else may do anything; which kinds of files there are."""
        for path, mode in modes(home):
            self.assertEqual(oct(mode), oct(0o700 if os.path.isdir(path) else 0o600), path)
        paths = [os.path.relpath(path, home) for path, _ in modes(home) if os.path.isfile(path)]
        return {re.sub(r"\d{20}", "N", path) for path in paths}

    def said(self) -> list[str]:
        """What was logged about permissions."""
        texts = [str(event["log_format"]).format(**event) for event in self.events if event.get("log_format")]
        return [text for text in texts if "0600" in text]

    def test_made(self) -> None:
        """All that a daemon makes."""
        self.assertEqual(self.check_private(self.home), KINDS)
        self.close()
        self.assertEqual(self.said(), [])

    def test_found(self) -> None:
        """All that is there already is tightened at the start, which is said once, with how much it was."""
        self.close()
        made = list(modes(self.home))
        for path, _ in made:
            os.chmod(path, 0o755 if os.path.isdir(path) else 0o644)
        os.symlink("/etc/passwd", f"{self.home}/link")
        before = os.stat("/etc/passwd").st_mode
        self.open()
        os.unlink(f"{self.home}/link")
        self.assertEqual(os.stat("/etc/passwd").st_mode, before)
        self.check_private(self.home)
        (line,) = self.said()
        self.assertIn(self.home, line)
        self.assertIn(f"{len(set(made))} ", line)
        self.close()
        self.open()
        self.assertEqual(len(self.said()), 1)
        self.close()

    def test_each(self) -> None:
        """Each kind of file alone."""
        self.close()
        for path, mode in set(modes(self.home)):
            for more in (0o040, 0o004, 0o020, 0o002, 0o010, 0o001):
                os.chmod(path, mode | more)
                store, _ = open_inline(Disk(), SMALL, directory=self.home)
                result_of(store.close())
                self.check_private(self.home)
                if not os.path.exists(path):
                    break

    def test_kept(self) -> None:
        """What a recovery and a repair keep."""
        self.crash(self.writer)
        self.compactor.catalog.close()
        self.store._on_closed()
        store, _ = open_inline(Disk(), SMALL, directory=self.home)
        result_of(store.close())
        self.assertTrue([name for name in os.listdir(f"{self.home}/journal") if name.endswith(".torn")])
        pack = f"{self.home}/packs/{max(os.listdir(f'{self.home}/packs'))}"
        with open(pack, "r+b") as file:
            file.seek(os.path.getsize(pack) // 2)
            file.write(bytes(64))
        with Repair(Disk(), self.home) as repair:
            self.assertTrue(repair.examine())
            repair.apply("now")
        kinds = self.check_private(self.home)
        self.assertLessEqual({"repair/now/packs/N.pack", "repair/now/catalog.sqlite", "repair/now/identity"}, kinds)

    def test_backup(self) -> None:
        """Backups, and what is restored of them; a backup that was made before is tightened."""
        target, restored = f"{self.home}.backup", f"{self.home}.restored"
        taken = take_backup(Disk(), self.home, target, "1")
        self.assertEqual(taken.tightened, 0)
        self.check_private(target)
        for path, _ in modes(target):
            os.chmod(path, 0o755 if os.path.isdir(path) else 0o644)
        taken = take_backup(Disk(), self.home, target, "2")
        self.assertGreater(taken.tightened, 5)
        self.check_private(target)
        backup = Backup(Disk(), target)
        restore(Disk(), backup, choose(backup, None), restored, lambda more: None)
        self.assertIn("packs/N.pack", self.check_private(restored))
        self.close()

    def test_another_user(self) -> None:
        """Somebody else gets to nothing, and is told what to do instead."""
        if os.geteuid():
            return
        receive, send = os.pipe()
        child = os.fork()
        if not child:
            try:
                # Into it first: to the directories above it nobody may have a right either.
                os.chdir(os.path.dirname(self.home))
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                try:
                    OutsideReader(os.path.basename(self.home))
                except StoreUnusable as error:
                    os.write(send, str(error).encode())
            finally:
                os._exit(0)
        os.close(send)
        with open(receive) as stream:
            self.assertIn("read them as that user, or from the daemon itself", stream.read())
        os.waitpid(child, 0)
        self.close()

    def test_owner(self) -> None:
        """What root makes in somebody's store is that one's: a repair by root does not lock the daemon out."""
        self.close()
        if os.geteuid():
            return
        for path, _ in set(modes(self.home)):
            os.chown(path, 12345, 54321)
        self.open()
        for path, _ in modes(self.home):
            self.assertEqual((os.stat(path).st_uid, os.stat(path).st_gid), (12345, 54321), path)
        self.close()
