"""The daemon's side of compaction, and the compactor's process: started, told, watched, started again, stopped."""

from __future__ import annotations

import errno
import json
import sqlite3
import subprocess
import sys
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.store import StoreUnusable
from streamd.store.disk import Disk
from streamd.store.packs import compactor
from streamd.store.packs.catalog import CatalogFull
from tests.rigs.store.inline import SMALL, call, open_inline, result_of
from tests.rigs.store.model import contents


class ProcessTests(SynchronousTestCase):
    """The real process, without a daemon."""

    def run_compactor(self, directory: str, commands: bytes) -> list[dict[str, Any]]:
        """What it says to these commands, until it has folded; then its input ends, and so does it."""
        command = [sys.executable, "-m", "streamd.store.packs.compactor", directory]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(commands)
            process.stdin.flush()
            said = [json.loads(process.stdout.readline())]
            while "folded" not in said[-1]:
                said.append(json.loads(process.stdout.readline()))
            process.stdin.close()
            said += [json.loads(line) for line in process.stdout]
        self.assertEqual(process.returncode, 0)
        return said

    def test_commands(self) -> None:
        """It folds what it is told to, says so, merges by itself what is worth it, and ends with its input."""
        directory = self.mktemp()
        store, writer = open_inline(Disk(), SMALL, directory=directory)
        segment = call(writer, store.create, "a")
        said: list[dict[str, Any]] = []
        for number in range(3):
            for _ in range(12):
                call(writer, store.append, segment, Batch.of([b"%d" % number * 500]))
            said += self.run_compactor(directory, b"fold 1\nfold %d\n" % store.closed_file)
            result_of(store.folded([each["folded"] for each in said if "folded" in each][-1]))
        self.assertEqual([each["folded"] for each in said if "folded" in each][-1], store.closed_file)
        before = contents(store)
        self.assertEqual(before["a"][0][2], 36)
        result_of(store.close())
        store, writer = open_inline(Disk(), SMALL, directory=directory)
        self.assertEqual(contents(store), before)
        result_of(store.close())

    def test_another(self) -> None:
        """Where there is no store, it says what failed, and ends."""
        directory = self.mktemp()
        Disk().make_directory(directory)
        done = subprocess.run(
            [sys.executable, "-m", "streamd.store.packs.compactor", directory],
            input=b"",
            capture_output=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("identity", json.loads(done.stdout)["failed"])

    def test_full(self) -> None:
        """Want of room is told from other failures, wherever it is noticed: at a file, in SQLite, at the catalog."""
        database = sqlite3.connect(":memory:")
        self.addCleanup(database.close)
        database.execute("PRAGMA max_page_count = 2")
        database.execute("CREATE TABLE t (x)")
        full = self.assertRaises(sqlite3.OperationalError, database.execute, "INSERT INTO t VALUES (zeroblob(99999))")
        wrong = self.assertRaises(sqlite3.OperationalError, database.execute, "SELECT nonsense")
        for error in (OSError(errno.ENOSPC, ""), OSError(errno.EDQUOT, ""), full, CatalogFull("no room")):
            self.assertTrue(compactor._is_full(error), error)
        for error in (OSError(errno.EIO, ""), wrong, StoreUnusable("damaged"), ValueError()):
            self.assertFalse(compactor._is_full(error), error)
