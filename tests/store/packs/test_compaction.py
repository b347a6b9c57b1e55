"""The daemon's side of compaction: the compactor is started, told, watched, started again and stopped."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.error import ProcessDone, ProcessTerminated
from twisted.internet.testing import EventLoggingObserver
from twisted.logger import LogLevel, globalLogPublisher
from twisted.python.failure import Failure

from streamd.store.packs import compaction
from streamd.store.packs.compaction import Compaction
from tests.rigs.store.case import StoreCase
from tests.rigs.store.inline import SMALL, Compactor
from tests.rigs.store.reactor import Reactor


class CompactionTests(StoreCase):
    """What the daemon does with the process, which is a fake one here; the folds are real."""

    settings = SMALL

    def open(self) -> None:
        super().open()
        self.reactor = Reactor()
        self.compaction = Compaction(self.store, "/data", self.reactor)
        self.compactor = Compactor(self.disk, self.store)

    def say(self, **what: object) -> None:
        """Let the process say something."""
        self.compaction.outReceived(json.dumps(what).encode() + b"\n")

    def die(self) -> None:
        """Let the process end."""
        self.compaction.processEnded(Failure(ProcessTerminated(signal=9)))

    def close_file(self) -> int:
        """Write until a journal file is complete, and say which."""
        if "a" not in self.store.names():
            self.create("a")
        file = self.store.closed_file
        while self.store.closed_file == file:
            self.append(self.store.find("a"), b"x" * 500)
        return self.store.closed_file

    def test_asks(self) -> None:
        """It is told of each journal file that is complete, also of those from before it was started."""
        first = self.close_file()
        self.compaction.start()
        (process,) = self.reactor.started
        self.assertEqual(process.written, b"fold %d\n" % first)
        second = self.close_file()
        self.assertEqual(process.written, b"fold %d\nfold %d\n" % (first, second))

    def test_folded(self) -> None:
        """When it has folded files, they go; in whatever pieces it says so."""
        self.close_file()
        self.compaction.start()
        before = len(self.files())
        folded = self.compactor.fold(told=False)
        line = json.dumps({"folded": folded.file, "pack": folded.pack, "bytes": 1}).encode() + b"\n"
        for at in range(len(line)):
            self.assertEqual(len(self.files()), before)
            self.compaction.outReceived(line[at : at + 1])
        self.assertEqual(len(self.files()), 1)

    def test_counted(self) -> None:
        """What it does is counted: starts, folds and their bytes, merges, failures; and whether it runs."""
        self.assertFalse(self.compaction.running)
        self.close_file()
        self.compaction.start()
        self.assertTrue(self.compaction.running)
        folded = self.compactor.fold(told=False)
        self.say(folded=folded.file, pack=folded.pack, bytes=folded.pack_bytes)
        self.say(merged=[], into=9)
        self.say(failed="no sense", full=False)
        self.die()
        self.assertFalse(self.compaction.running)
        self.reactor.advance(1)
        counted = self.compaction.counted
        self.assertEqual((counted.starts, counted.folds, counted.merges, counted.failures), (2, 1, 1, 1))
        self.assertEqual(counted.pack_bytes, folded.pack_bytes)

    def test_dies(self) -> None:
        """One that dies is started again, later each time; one that got something done, soon again."""
        file = self.close_file()
        self.compaction.start()
        for delay in (1, 2, 4, 8, 16, 32, 60, 60):
            self.die()
            self.reactor.advance(delay - 0.5)
            count = len(self.reactor.started)
            self.reactor.advance(0.5)
            self.assertEqual(len(self.reactor.started), count + 1)
            self.assertEqual(self.reactor.started[-1].written, b"fold %d\n" % file)
        self.compactor.fold(told=False)
        self.say(folded=file, pack=1, bytes=1)
        self.die()
        count = len(self.reactor.started)
        self.reactor.advance(1)
        self.assertEqual(len(self.reactor.started), count + 1)

    def test_cannot_be_started(self) -> None:
        """Where no process can be had it is tried again, later each time, until there is one; none is counted."""
        file = self.close_file()
        self.reactor.error = OSError(24, "Too many open files")
        self.compaction.start()
        for delay in (1, 2, 4, 8, 16, 32, 60, 60):
            self.assertFalse(self.compaction.running)
            self.assertEqual(self.reactor.started, [])
            (restart,) = self.reactor.getDelayedCalls()
            self.assertEqual(restart.getTime(), self.reactor.seconds() + delay)
            self.reactor.error = MemoryError()
            self.reactor.advance(delay)
        self.assertEqual((self.compaction.counted.starts, self.compaction.counted.failures), (0, 9))
        self.reactor.error = None
        self.reactor.advance(60)
        self.assertTrue(self.compaction.running)
        self.assertEqual(self.reactor.started[0].written, b"fold %d\n" % file)
        self.assertEqual(self.compaction.counted.starts, 1)

    def test_cannot_be_started_again(self) -> None:
        """The same for one that died, and for one that is stopped before there was another."""
        self.compaction.start()
        self.reactor.error = OSError(12, "Cannot allocate memory")
        self.die()
        self.reactor.advance(1)
        self.assertFalse(self.compaction.running)
        self.successResultOf(self.compaction.stop())
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_silent(self) -> None:
        """One that hangs is killed after a long while, and another is started; one with nothing to do is not."""
        self.compaction.start()
        self.reactor.advance(2 * compaction._SILENT_SECONDS_MAX)
        self.assertEqual(self.reactor.started[0].signals, [])
        self.close_file()
        self.reactor.advance(compaction._SILENT_SECONDS_MAX - 1)
        self.assertEqual(self.reactor.started[0].signals, [])
        self.reactor.advance(1)
        self.assertEqual(self.reactor.started[0].signals, ["KILL"])
        self.die()
        self.reactor.advance(1)
        self.assertEqual(len(self.reactor.started), 2)

    def test_silent_after_something(self) -> None:
        """Whatever else it says, it is watched until all is folded that it was asked to fold."""
        self.compaction.start()
        (process,) = self.reactor.started
        first = self.close_file()
        folded = self.compactor.fold(told=False)
        second = self.close_file()
        messages: list[dict[str, object]] = [
            {"merged": [], "into": None},
            {"failed": "no sense", "full": False},
            {"folded": first, "pack": folded.pack, "bytes": 1},
        ]
        for said in messages:
            self.reactor.advance(compaction._SILENT_SECONDS_MAX - 1)
            self.say(**said)
        self.reactor.advance(compaction._SILENT_SECONDS_MAX - 1)
        self.assertEqual(process.signals, [])
        self.reactor.advance(1)
        self.assertEqual(process.signals, ["KILL"])
        self.die()
        self.reactor.advance(1)
        self.assertEqual(self.reactor.started[1].written, b"fold %d\n" % second)
        folded = self.compactor.fold(told=False)
        self.say(folded=second, pack=folded.pack, bytes=1)
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_no_room(self) -> None:
        """One without room for a pack says so once, and is started at once when something may have been deleted."""
        events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        self.close_file()
        self.compaction.start()
        for _ in range(8):
            self.say(failed="OSError: No space left on device", full=True)
            self.die()
            self.reactor.advance(60)
        told = [event for event in events if event["log_level"] >= LogLevel.info]
        self.assertEqual([event["reason"] for event in told], ["OSError: No space left on device"])
        self.say(failed="OSError: No space left on device", full=True)
        self.die()
        count = len(self.reactor.started)
        file = self.close_file()
        self.assertEqual(len(self.reactor.started), count + 1)
        self.assertEqual(self.reactor.started[-1].written, b"fold %d\n" % file)
        folded = self.compactor.fold(told=False)
        self.say(folded=file, pack=folded.pack, bytes=1)
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_stop(self) -> None:
        """Stopping ends the process, waits for that, and starts no other."""
        self.compaction.start()
        stopped = self.compaction.stop()
        self.assertEqual(self.reactor.started[0].signals, ["KILL"])
        self.assertNoResult(stopped)
        self.compaction.processEnded(Failure(ProcessDone(0)))
        self.successResultOf(stopped)
        self.reactor.advance(1000)
        self.assertEqual(len(self.reactor.started), 1)
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_stop_between_two(self) -> None:
        """The same while none runs."""
        self.compaction.start()
        self.die()
        self.successResultOf(self.compaction.stop())
        self.reactor.advance(1000)
        self.assertEqual(len(self.reactor.started), 1)
