"""A real daemon and its compactor, under load, with retention: killed, stopped, read from, and nothing is lost.

What the publishers know is the oracle. Topics without a rule keep everything that was acknowledged; of the others the
latest records are there, as many as the rule promises.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.rigs.daemon import DEADLINE_SECONDS
from tests.rigs.publishers import CONFIG, LoadCase, Publisher, compactors
from tests.rigs.sesp_client import Sesp

RULES = """
[[retention]]
pattern = "by records"
records_max = 1500

[[retention]]
pattern = "by bytes"
bytes_max = 2000000
"""

RECORDS_MAX = 1500
BYTES_MAX = 2_000_000


class CompactionCase(LoadCase):
    """A daemon with retention, whose compactor can be found."""

    config = CONFIG.replace("[sesp]", "retention_seconds = 0.2\n\n[sesp]") + RULES
    others = frozenset({"by records", "by bytes"})

    def setUp(self) -> None:
        super().setUp()
        self.dropping = [
            Publisher("few are kept", "by records", 100, 11, self.acknowledged),
            Publisher("little is kept", "by bytes", 100, 12, self.acknowledged),
        ]

    def create_topics(self) -> None:
        super().create_topics()
        with Sesp(self.daemon) as sesp:
            for each in self.dropping:
                sesp.ask(f"#{each.topic}")

    def load(self, more: int) -> None:
        for each in self.dropping:
            each.start(self.daemon)
        super().load(more)

    def join(self) -> None:
        for each in self.dropping:
            each.join()
            self.assertEqual(each.errors, [], self.daemon.output)
        super().join()

    def compactor(self) -> int:
        """The compactor's process, waited for."""
        (pid, *_) = self.wait_until(lambda: compactors(self.daemon.pid), "there is no compactor")
        return int(pid)

    def kill_compactor(self) -> int:
        """End it, if there is one just now, and say which it was."""
        for pid in compactors(self.daemon.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            return pid
        return 0

    def wait_until(self, condition: Any, complaint: str) -> Any:
        """What the condition gives, once it is something."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (found := condition()):
            if time.monotonic() > deadline:
                self.fail(f"{complaint}\n{self.daemon.output}")
            time.sleep(0.02)
        return found

    def check_dropping(self) -> None:
        """Of a topic with a rule the latest messages are there, in order, and as many as the rule promises."""
        for each in self.dropping:
            with Sesp(self.daemon) as sesp:
                sesp.ask(f"@{each.topic}")
                first, end, kept_bytes = sesp.places(each.topic)
                messages = sesp.read_while_it_goes(each.topic)
            # Numbers that were lost are used again, so a message's number is its offset.
            for offset, message in messages.items():
                self.assertEqual(message, each.line(offset))
            self.assertEqual(list(messages), list(range(min(messages, default=end), end)))
            self.assertTrue(
                each.acknowledged <= end <= each.sent, f"{each.name}: {each.acknowledged} {end} {each.sent}"
            )
            if each.topic == "by records":
                self.assertGreaterEqual(end - first, min(RECORDS_MAX, end))
            elif first:
                self.assertGreaterEqual(kept_bytes, BYTES_MAX)
            each.sent = each.acknowledged = each.stored = end

    # -- what is on disk -----------------------------------------------------------------------------------------------

    def files(self, folder: str, suffix: str) -> dict[str, int]:
        """The files in a folder of the store, and their sizes."""
        sizes = {}
        for path in (self.directory / "data" / folder).glob("*" + suffix):
            try:
                sizes[path.name] = path.stat().st_size
            except FileNotFoundError:
                pass  # it was removed under our eyes
        return sizes

    def live_bytes(self) -> int:
        """Bytes of all messages that are kept, as offsets count them."""
        with Sesp(self.daemon) as sesp:
            return sum(sesp.places(topic)[2] for topic in [*self.topics, *[each.topic for each in self.dropping]])

    def check_disk(self) -> None:
        """Once the compactor has caught up, the disk holds little more than what is kept."""

        def is_small() -> bool:
            packs = sum(self.files("packs", "*").values())
            return len(self.files("journal", ".journal")) <= 2 and packs <= 1.5 * self.live_bytes() + 4_000_000

        self.wait_until(is_small, "files pile up")


class KillCompactorTests(CompactionCase):
    """A compactor that dies costs nothing but time, and so does a daemon that dies with it or without it."""

    def test_rounds(self) -> None:
        """Kill -9 of the compactor, of the daemon and of both, in rounds, under load, on one data directory."""
        chance = random.Random(4)
        self.daemon.start()
        self.create_topics()
        for round_ in range(9):
            self.load(chance.choice((300, 1500, 3000)))
            victim = ("compactor", "daemon", "both")[round_ % 3]
            if victim != "daemon":
                # Not there where the last one was killed just now: then the daemon starts it a little later.
                self.kill_compactor()
            if victim == "compactor":
                self.acknowledged.wait(chance.choice((50, 1000)))
                self.kill_compactor()
                self.acknowledged.wait(500)
                self.assertEqual(self.daemon.terminate(), 0, self.daemon.output)
            else:
                self.assertEqual(self.daemon.kill(), -signal.SIGKILL)
            self.join()
            self.daemon.start()
            self.check_new()
            self.check_dropping()
        self.check_all()
        self.check_disk()
        self.check_all()
        self.assertTrue(self.files("packs", ".pack"))

    def test_restarted(self) -> None:
        """A compactor that died is started again, and takes up where the last one was."""
        self.daemon.start()
        self.create_topics()
        first = self.compactor()
        self.assertEqual(self.kill_compactor(), first)
        self.wait_until(lambda: set(compactors(self.daemon.pid)) - {first}, "there is no other compactor")
        self.load(2000)
        self.wait_until(lambda: self.files("packs", ".pack"), "nothing is folded")
        last = self.compactor()
        self.assertEqual(self.daemon.terminate(), 0)
        self.join()
        self.assertRaises(ProcessLookupError, os.kill, last, 0)

    def test_no_descriptors(self) -> None:
        """One that can't be started for want of descriptors is started when there are some; metrics tell the truth."""
        self.daemon.start()
        self.assertEqual(self.metric("streamd_compactor_running"), 1)
        first = self.compactor()
        limits = resource.prlimit(self.daemon.pid, resource.RLIMIT_NOFILE)
        # Every number below the limit is taken but one, for who asks for metrics.
        while (free := self.free_descriptors()) > 1:
            self.addCleanup(self.daemon.connect().close)
            self.wait_until(lambda free=free: self.free_descriptors() < free, "a connection takes no descriptor")
        resource.prlimit(self.daemon.pid, resource.RLIMIT_NOFILE, (self.last_descriptor() + 1, limits[1]))
        self.assertEqual(self.kill_compactor(), first)
        self.daemon.wait_for_line("the compactor can't be started ([Errno 24] Too many open files)")
        self.assertEqual(self.metric("streamd_compactor_running"), 0)
        self.assertEqual(self.metric("streamd_compactor_starts_total"), 1)
        resource.prlimit(self.daemon.pid, resource.RLIMIT_NOFILE, limits)
        self.compactor()
        self.wait_until(lambda: self.metric("streamd_compactor_running") == 1, "metrics do not know of it")
        self.assertEqual(self.metric("streamd_compactor_starts_total"), 2)

    def metric(self, name: str) -> float:
        """What /metrics says of this."""
        url = f"http://localhost:{self.daemon.port('http')}/metrics"
        with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    def descriptors(self) -> set[int]:
        return {int(each.name) for each in Path(f"/proc/{self.daemon.pid}/fd").iterdir()}

    def last_descriptor(self) -> int:
        return max(self.descriptors())

    def free_descriptors(self) -> int:
        """How many numbers below the last one are free."""
        return self.last_descriptor() + 1 - len(self.descriptors())

    def test_hang(self) -> None:
        """A compactor that hangs costs nothing but time: writers write, readers read, and later it catches up."""
        self.daemon.start()
        self.create_topics()
        pid = self.compactor()
        os.kill(pid, signal.SIGSTOP)
        self.load(3000)
        self.assertGreater(len(self.files("journal", ".journal")), 3)
        self.assertEqual(self.daemon.kill(), -signal.SIGKILL)
        self.join()
        # The stopped one is killed with its parent, so the next daemon does not wait for it.
        self.daemon.start()
        self.check_new()
        os.kill(self.compactor(), signal.SIGSTOP)
        self.load(2000)
        os.kill(self.compactor(), signal.SIGCONT)
        self.daemon.terminate()
        self.join()
        self.daemon.start()
        self.check_new()
        self.check_disk()
        self.check_all()


class ReadUnderCompactionTests(CompactionCase):
    """Who reads never notices that files come and go under him."""

    def test_read_everything(self) -> None:
        """Every topic is read in a loop while journal files are folded, packs merged, topics truncated and deleted."""
        self.daemon.start()
        self.create_topics()
        alone = [each for each in self.publishers if each.topic in ("b", "c", "d")]
        writers = [*alone, *self.dropping]
        failures: list[str] = []
        over = threading.Event()
        rounds = [0, 0, 0]

        def guarded(work: Any, at: int) -> None:
            try:
                while not over.is_set():
                    work()
                    rounds[at] += 1
            except Exception as error:
                failures.append(repr(error))
                over.set()

        def read() -> None:
            for each in writers:
                with Sesp(self.daemon) as sesp:
                    for offset, message in sesp.read_while_it_goes(each.topic).items():
                        if message != each.line(offset):
                            raise AssertionError(f"{each.topic} {offset}: {message[:80]!r}")

        def truncate() -> None:
            with Sesp(self.daemon) as sesp:
                sesp.ask("@d")
                first, end, _ = sesp.places("d")
                sesp.ask(f"%{max(first, end - 50)}")
            time.sleep(0.05)

        def delete() -> None:
            with Sesp(self.daemon) as sesp:
                sesp.ask("#short-lived")
                sesp.ask("@short-lived")
                for number in range(20):
                    sesp.ask(f">{number} {'y' * 5000}")
                self.assertEqual(len(sesp.read_while_it_goes("short-lived")), 20)
                sesp.ask("!short-lived")

        for each in writers:
            each.start(self.daemon)
        threads = [threading.Thread(target=guarded, args=job) for job in ((read, 0), (truncate, 1), (delete, 2))]
        for thread in threads:
            thread.start()
        try:
            self.wait_until(
                lambda: over.is_set() or (rounds[0] >= 4 and rounds[2] >= 10 and self.merged() >= 2), "too slow"
            )
        finally:
            over.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(self.daemon.terminate(), 0)
        for each in writers:
            each.join()
            self.assertEqual(each.errors, [])

    def merged(self) -> int:
        """About how many packs were merged: numbers that were given, and are not there any more."""
        numbers = [int(name.split(".")[0]) for name in self.files("packs", ".pack")]
        return max(numbers, default=0) - len(numbers)
