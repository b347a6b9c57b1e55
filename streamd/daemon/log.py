"""The daemon's log: twistd's text, or one JSON object a line, from a given level up.

twistd asks its application for an observer before it makes one of its own, and a service meets that application when it
gets its parent. So `StreamdService` hands over what `open_log` makes. From then on everything that is logged goes
through it, also by twistd itself, by ``print`` and by ``warnings``.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any, cast

from twisted.internet.interfaces import IReactorFromThreads
from twisted.logger import (
    FileLogObserver,
    FilteringLogObserver,
    ILogObserver,
    LogEvent,
    LogLevel,
    LogLevelFilterPredicate,
    formatEvent,
    textFileLogObserver,
)
from twisted.python.logfile import LogFile
from twisted.python.reflect import safe_repr

from streamd.settings import LogSettings

# twistd's name for its log where it runs in the background and none is given.
_DAEMON_LOG = "twistd.log"

# What an event of the old twisted.python.log carries beside its text, and what an old observer adds to a new event.
_LEGACY = frozenset({"format", "isError", "system", "time", "why", "failure", "logLevel"})


@dataclass(frozen=True)
class Log:
    """The destination of the log: the observer (None: twistd's own), and whether standard error shows the log too."""

    observer: ILogObserver | None
    on_stderr: bool
    least: LogLevelFilterPredicate | None = None

    def set_level(self, level: str) -> None:
        """Log from this level up, where the observer is ours."""
        if self.least is not None:
            self.least.setLogLevelForNamespace("", LogLevel.levelWithName(level))


def open_log(settings: LogSettings, twistd: Mapping[str, Any], reactor: IReactorFromThreads) -> Log:
    """The log for these settings, at the destination that twistd's own options give.

    With ``--logger`` or ``--syslog`` the operator has chosen an observer already.
    """
    if twistd.get("logger") or twistd.get("syslog"):
        return Log(None, False)
    file = _destination(twistd, reactor)
    inner = json_observer(file) if settings.format == "json" else textFileLogObserver(file)
    least = from_level(settings.level)
    return Log(filtered(inner, least), file is sys.stdout and _same_file(sys.stdout, sys.stderr), least)


def from_level(level: str) -> LogLevelFilterPredicate:
    """A filter that passes events of this level and above; its level can be changed."""
    return LogLevelFilterPredicate(defaultLogLevel=LogLevel.levelWithName(level))


def filtered(inner: ILogObserver, least: LogLevelFilterPredicate) -> ILogObserver:
    """An observer that passes on the events that the filter lets through."""
    made: ILogObserver = FilteringLogObserver(inner, [least])
    return made


def json_observer(file: IO[Any]) -> FileLogObserver:
    """An observer that writes each event as one line of JSON."""
    return FileLogObserver(file, lambda event: json_line(event) + "\n")


def json_line(event: LogEvent) -> str:
    """An event as a JSON object: time, level, namespace, message, then its fields, and a traceback last."""
    level = event.get("log_level")
    moment = datetime.fromtimestamp(event.get("log_time", 0.0), UTC)
    line: dict[str, object] = {
        "time": moment.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "level": level.name if level is not None else "info",
        "namespace": event.get("log_namespace", "-"),
        "message": formatEvent(event),
    }
    for key, value in event.items():
        if not key.startswith("log_") and key not in _LEGACY:
            line.setdefault(key, _simple(value))
    if "log_failure" in event:
        line["traceback"] = event["log_failure"].getTraceback()
    # ASCII, so that the line is valid in whatever encoding the terminal or the file has.
    return json.dumps(line)


def _simple(value: object) -> object:
    """A value that JSON can express, for any value: NaN and the infinities are not JSON, though Python writes them."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "backslashreplace")
    return safe_repr(value)


def _destination(twistd: Mapping[str, Any], reactor: IReactorFromThreads) -> IO[Any]:
    """The file that twistd would log to: standard output in the foreground, else a file that SIGUSR1 rotates."""
    name = twistd.get("logfile")
    if name == "-" or (not name and twistd.get("nodaemon", True)):
        if not twistd.get("nodaemon", True):
            raise SystemExit("streamd: --logfile - needs twistd -n: a daemon has no standard output")
        return sys.stdout
    file = LogFile.fromFullPath(name or _DAEMON_LOG)
    if not signal.getsignal(signal.SIGUSR1):
        # As twistd does: rotation has to happen between two writes, and a signal can come in the middle of one.
        signal.signal(signal.SIGUSR1, lambda *_: reactor.callFromThread(file.rotate))
    return cast(IO[Any], file)


def _same_file(one: IO[Any], other: IO[Any]) -> bool:
    """Whether two files are the same terminal, pipe or file."""
    try:
        return os.path.samestat(os.fstat(one.fileno()), os.fstat(other.fileno()))
    except (OSError, ValueError):  # closed, or not a real file
        return False
