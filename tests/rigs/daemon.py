"""A real daemon for a test: ``twistd -n streamd`` in a process of its own, on free ports, in a directory of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from streamd.plugin import found_protocols

CHECKOUT = Path(__file__).resolve().parents[2]
READY = "streamd ready"
DEADLINE_SECONDS = 60.0

# What the script `twistd` does, for an interpreter that may have no such script beside it.
_TWISTD = "import sys; sys.argv[0] = 'twistd'; from twisted.scripts.twistd import run; run()"
_LISTENS = re.compile(r'(\w+) listens on ([^\s"]+)')


class DaemonFailed(AssertionError):
    """The daemon did not do what was waited for. The text has all it said."""


def _config(directory: Path, options: Sequence[str]) -> str:
    """The text of the configuration file that is given, if there is one."""
    if "--config" not in options:
        return ""
    try:
        return (directory / options[options.index("--config") + 1]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


class Daemon:
    """One daemon after the other on the same directory: start it, stop or kill it, start it again.

    Services that are not given an endpoint here, and not in a ``--config``, listen on ports that the system chooses;
    `port` tells where. Lines of the log are in `log`, those of standard error in `errors`.
    """

    def __init__(
        self,
        directory: str,
        *options: str,
        twistd: Sequence[str] = ("-n", "--pidfile="),
        environment: Mapping[str, str] | None = None,
        errors_in_log: bool = False,
        launcher: Sequence[str] = (),
        descriptors: Sequence[int] = (),
    ) -> None:
        self.directory = Path(directory).resolve()
        self.data_dir = self.directory / "data"
        self.options = list(options)
        stated = _config(self.directory, options)
        for protocol in found_protocols():
            if f"--{protocol.name}" not in options and f"[{protocol.name}]" not in stated:
                kind = protocol.default.partition(":")[0]
                self.options += [f"--{protocol.name}", f"{kind}:0:interface=127.0.0.1"]
        if "--config" not in options and "--data-dir" not in options:
            self.options += ["--data-dir", str(self.data_dir)]
        self.twistd = list(twistd)
        self.environment = dict(environment or {})
        self.errors_in_log = errors_in_log
        self.launcher = list(launcher)  # a command that becomes the daemon in the end
        self.descriptors = descriptors  # what it inherits beside the usual three
        self.log: list[str] = []
        self.errors: list[str] = []
        self._news = threading.Condition()
        self._process: subprocess.Popen[str] | None = None
        self._readers: list[threading.Thread] = []
        self._ended: set[int] = set()  # which lists of lines are complete

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Of the daemon that was started last."""
        return self._started().pid

    @property
    def sesp_port(self) -> int:
        """The port where SESP is spoken."""
        return self.port("sesp")

    @property
    def output(self) -> str:
        """All that it said, for a failure's message."""
        return "\n".join(["--- log", *self.log, "--- standard error", *self.errors])

    def start(self) -> Self:
        """Start it and wait until it is ready."""
        self.spawn()
        self.wait_for_line(READY)
        return self

    def spawn(self) -> Self:
        """Start it, and wait for nothing."""
        self.close()
        self.log, self.errors = [], []
        self._ended.clear()
        self.directory.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join(filter(None, [self.environment.get("PYTHONPATH"), str(CHECKOUT)]))
        self._process = subprocess.Popen(
            [*self.launcher, sys.executable, "-c", _TWISTD, *self.twistd, "streamd", *self.options],
            cwd=self.directory,
            env={**os.environ, **self.environment, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
            pass_fds=self.descriptors,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if self.errors_in_log else subprocess.PIPE,
            text=True,
            errors="backslashreplace",
        )
        self._readers = [self._read(self._process.stdout, self.log)]
        if not self.errors_in_log:
            self._readers.append(self._read(self._process.stderr, self.errors))
        return self

    def wait_for_line(self, text: str, seconds: float = DEADLINE_SECONDS) -> str:
        """The first line of the log that holds the text; waits until it is there."""
        deadline = time.monotonic() + seconds
        with self._news:
            while True:
                for line in self.log:
                    if text in line:
                        return line
                left = deadline - time.monotonic()
                if id(self.log) in self._ended:
                    raise DaemonFailed(f"it ended without {text!r}\n{self.output}")
                if left <= 0:
                    raise DaemonFailed(f"no {text!r} within {seconds:.0f} s\n{self.output}")
                self._news.wait(left)

    def wait(self, seconds: float = DEADLINE_SECONDS) -> int:
        """Wait until it has ended, and return its exit status."""
        process = self._started()
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise DaemonFailed(f"still running after {seconds:.0f} s\n{self.output}")
        for reader in self._readers:
            reader.join(seconds)
        return status

    def terminate(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end, and wait until it has. Returns its exit status."""
        self._started().send_signal(number)
        return self.wait()

    def kill(self) -> int:
        """End it with SIGKILL, as a crash would, and wait until it is gone."""
        return self.terminate(signal.SIGKILL)

    def close(self) -> None:
        """Nothing is left running. For the end of a test, also of one that failed."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
        self.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        self._give_room_back()

    def _give_room_back(self) -> None:
        """Each journal file has room for 64 MiB, and trial keeps all directories: hundreds of daemons fill a disk.

        What the files hold stays the same.
        """
        for path in self.data_dir.glob("journal/*.journal"):
            with suppress(OSError), open(path, "r+b") as file:
                size, used = os.fstat(file.fileno()).st_size, os.lseek(file.fileno(), 0, os.SEEK_HOLE)
                try:
                    os.lseek(file.fileno(), used, os.SEEK_DATA)
                except OSError:
                    # Nothing but zeros from there on, which a hole is too.
                    os.truncate(path, used)
                    os.truncate(path, size)

    def addresses(self, service: str) -> list[str]:
        """All that a service listens on, in the order of the log: ``127.0.0.1:4840`` or a path."""
        found = [match for line in self.log if (match := _LISTENS.search(line))]
        return [match[2] for match in found if match[1] == service]

    def port(self, service: str) -> int:
        """The TCP port of a service, its first one."""
        return int(self.addresses(service)[0].rpartition(":")[2])

    def connect(self, service: str = "sesp") -> socket.socket:
        """A blocking connection to a service, with a deadline on everything it does."""
        return socket.create_connection(("127.0.0.1", self.port(service)), DEADLINE_SECONDS)

    def _started(self) -> subprocess.Popen[str]:
        assert self._process is not None, "not started"
        return self._process

    def _read(self, stream: IO[str] | None, lines: list[str]) -> threading.Thread:
        assert stream is not None

        def read() -> None:
            for line in stream:
                with self._news:
                    lines.append(line.rstrip("\n"))
                    self._news.notify_all()
            with self._news:
                self._ended.add(id(lines))
                self._news.notify_all()

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread
