"""``streamctl`` with Spark behind it: what it says, how it stops, and what is left of it when it is killed."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from subprocess import TimeoutExpired

from twisted.internet.defer import Deferred

from tests.rigs.drivers.case import DriverCase
from tests.rigs.spark.archives.case import ArchiveCase, numbered
from tests.rigs.spark.pipeline import GOOD, PipelineCase

LOCAL = ("--master", "local[2]")


class PipelineTests(DriverCase, PipelineCase):
    def test_wrong(self) -> Deferred[None]:
        """SQL that is wrong is told in one line, and nothing of what Spark went through."""
        return self.do(self._wrong)

    def _wrong(self) -> None:
        path = self.directory / "p.toml"
        path.write_text(GOOD.replace("FROM logs", "FROM lgs", 1))
        ended = self.ended("streamd.cli", "pipeline", "check", str(path), *LOCAL)
        self.assertEqual((ended.returncode, ended.stdout), (2, ""))
        self.assertRegex(ended.stderr, rf"\Astreamctl: {re.escape(str(path))}:15: view v: \[TABLE_OR_VIEW.*\n\Z")

    def test_dead_letters(self) -> Deferred[None]:
        """The example tells of its progress, stops on SIGTERM, goes on where it was; each order goes one way."""
        return self.do(self._dead_letters)

    def _dead_letters(self) -> None:
        command = ("streamd.cli", "pipeline", "run", str(self.example("dead-letters")), "--json", *LOCAL)
        good = [{"order": number, "customer": "c", "amount": 1.5} for number in range(50)]
        self.telnet("orders", *good[:20], "{no JSON", {"order": 7}, {"order": 8, "customer": "c", "amount": -1})
        with self.running(*command) as process:
            self.wait_for_rows(process, {"good": 23, "dead": 23})
            # To Java as well, as supervisors do it.
            os.killpg(process.pid, signal.SIGTERM)
            self.assertEqual(process.wait(self.timeout), 0)
        self.telnet("orders", *good[20:])
        self.said(*command, "--once")
        self.assertEqual(self.objects("orders.good"), good)
        dead = self.objects("orders.dead")
        self.assertEqual(
            [(each["offset"], each["reason"], each["text"]) for each in dead],
            [
                (20, "not JSON of the schema", "{no JSON"),
                (21, "no customer", '{"order": 7}'),
                (22, "no amount above 0", '{"order": 8, "customer": "c", "amount": -1}'),
            ],
        )


class ArchiveTests(ArchiveCase, DriverCase):
    def test_killed(self) -> Deferred[None]:
        """It is killed while it writes, twice; a third time it comes to its end, and each record is there once."""
        return self.do(self._killed)

    def _killed(self) -> None:
        self.numbers("a", 0, 30_000)
        for signs in ("a/*.parquet", "a/_delta_log/*.json"):
            self.start_and_kill(signs)
        self.assertEqual(self.archived("a"), numbered(0, self.end("a") or 0))
        ended = self.ended(*self.command(), "--json")
        # Spark and Java say nothing of themselves.
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        (done,) = json.loads(ended.stdout)
        self.assertEqual((done["topic"], done["first"], done["end"], done["lost"]), ("a", 0, 30_000, 0))
        self.assertEqual(self.archived("a"), numbered(0, 30_000))
        self.assertEqual(self.position("a"), 30_000)

    def command(self) -> list[str]:
        files = ("--to", self.uri, "--server", self.server(), "--file-bytes", "64k")
        return ["streamd.cli", "archive", "a", *files, *LOCAL]

    def start_and_kill(self, signs: str) -> None:
        """Kill the command with all its processes as soon as there are such files."""
        with self.running(*self.command()) as process:
            assert process.stderr is not None
            while not list(Path(self.uri).glob(signs)):
                try:
                    process.wait(0.02)
                except TimeoutExpired:
                    continue
                self.fail(f"it ended by itself: {process.stderr.read()}")
