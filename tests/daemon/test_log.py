"""The log: one JSON object a line, and the level."""

from __future__ import annotations

import json
import os
from io import StringIO
from typing import Any

from twisted.internet.testing import MemoryReactorClock
from twisted.logger import Logger, LogLevel, LogPublisher
from twisted.python.failure import Failure
from twisted.python.log import LogPublisher as LegacyPublisher
from twisted.trial.unittest import SynchronousTestCase

from streamd.daemon.log import filtered, from_level, json_line, json_observer, open_log
from streamd.settings import LogSettings


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class JsonTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.file = StringIO()
        self.log = Logger(namespace="here", observer=json_observer(self.file))

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.getvalue().splitlines()]

    def test_event(self) -> None:
        """An event has its time in UTC, level, namespace, text and fields, and nothing else."""
        event = {
            "log_time": 1700000000.25,
            "log_level": LogLevel.warn,
            "log_namespace": "streamd.x",
            "log_format": "{peer} broke {wire}",
            "log_logger": object(),
            "peer": "::1",
            "wire": "sesp",
        }
        self.assertEqual(
            json.loads(json_line(event)),
            {
                "time": "2023-11-14T22:13:20.250000Z",
                "level": "warn",
                "namespace": "streamd.x",
                "message": "::1 broke sesp",
                "peer": "::1",
                "wire": "sesp",
            },
        )

    def test_one_line(self) -> None:
        """Whatever is logged is one line, so no peer can forge one."""
        self.log.info("a\n{x}", x="b\r\n{}\x85\u2028\ud800")
        self.assertEqual(len(self.file.getvalue().splitlines()), 1)
        self.assertEqual(self.lines()[0]["x"], "b\r\n{}\x85\u2028\ud800")

    def test_fields(self) -> None:
        """Fields that JSON has are themselves, bytes are decoded, all else is its repr."""
        self.log.info("x", a=1, b=None, c=True, d=b"\xffa", e=1.5, f=float("nan"), g=[1], h=memoryview(b"m"))
        line = self.lines()[0]
        found = [line[key] for key in "abcdefgh"]
        self.assertEqual(found, [1, None, True, "\\xffa", 1.5, "nan", "[1]", "m"])

    def test_unprintable(self) -> None:
        """A value that can't be shown costs its own text only."""
        self.log.info("{x}", x=Unprintable())
        self.assertIn("Unprintable", self.lines()[0]["x"])

    def test_own_names(self) -> None:
        """A field can't take the place of time, namespace or message. (Twisted itself keeps `level`.)"""
        self.log.info("text", namespace=2, message=3, time=4)
        line = self.lines()[0]
        self.assertEqual((line["namespace"], line["message"]), ("here", "text"))
        self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")

    def test_failure(self) -> None:
        """A failure's traceback is one field."""
        self.log.failure("bad", Failure(ValueError("why")))
        line = self.lines()[0]
        self.assertEqual((line["level"], line["message"]), ("critical", "bad"))
        self.assertIn("ValueError: why", line["traceback"])

    def test_legacy(self) -> None:
        """Events of twisted.python.log are lines of the same kind."""
        publisher = LogPublisher(json_observer(self.file))
        legacy = LegacyPublisher(observerPublisher=publisher, publishPublisher=publisher)
        legacy.msg("old", "style")
        line = self.lines()[0]
        self.assertEqual(sorted(line), ["level", "message", "namespace", "time"])
        self.assertEqual(line["message"], "old style")


class LevelTests(SynchronousTestCase):
    def test_each(self) -> None:
        """A level passes itself and all above it."""
        names = ["debug", "info", "warn", "error", "critical"]
        for least, level in enumerate(names):
            file = StringIO()
            log = Logger(observer=filtered(json_observer(file), from_level(level)))
            for name in names:
                log.emit(LogLevel.levelWithName(name), "x")
            passed = [json.loads(line)["level"] for line in file.getvalue().splitlines()]
            self.assertEqual(passed, names[least:])


class DestinationTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor: Any = MemoryReactorClock()

    def test_logfile(self) -> None:
        """The log goes to twistd's --logfile, in the format that was asked for."""
        path = os.path.abspath(self.mktemp())
        log = open_log(LogSettings(format="json"), {"logfile": path, "nodaemon": True}, self.reactor)
        Logger(observer=log.observer).info("there")
        with open(path) as file:
            self.assertEqual(json.loads(file.read())["message"], "there")
        self.assertFalse(log.on_stderr)

    def test_left_to_twistd(self) -> None:
        """Who has chosen syslog or an observer of their own keeps it."""
        for options in ({"syslog": True}, {"logger": print}):
            self.assertIsNone(open_log(LogSettings(), options, self.reactor).observer)

    def test_daemon_on_stdout(self) -> None:
        """A daemon has no standard output to log to."""
        options = {"logfile": "-", "nodaemon": False}
        self.assertRaises(SystemExit, open_log, LogSettings(), options, self.reactor)
