"""Runs streamctl for a test: in this process, which takes no time, or as a program, which is the real thing."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

from streamd.cli import main
from tests.rigs.client.peers import address
from tests.rigs.daemon import CHECKOUT, Daemon

if TYPE_CHECKING:
    from tests.rigs.cli.case import DaemonCase


class Ended(NamedTuple):
    """What a command did."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """What it printed."""
        return self.out.decode()

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


def environment(daemon: Daemon) -> dict[str, str]:
    """What tells a command where a daemon is."""
    return {"STREAMD_SERVER": address(daemon, "pravega")}


def ctl(*arguments: str, given: bytes = b"", env: Mapping[str, str] | None = None) -> Ended:
    """Run a command here. Its three streams are files, as they may be in a shell."""
    with ExitStack() as stack:
        files = [stack.enter_context(TemporaryFile("w+b")) for _ in range(3)]
        files[0].write(given)
        files[0].seek(0)
        before = sys.stdin, sys.stdout, sys.stderr, dict(os.environ)
        wrapped = [
            stack.enter_context(open(file.fileno(), mode, closefd=False))
            for file, mode in zip(files, "rww", strict=True)
        ]
        try:
            sys.stdin, sys.stdout, sys.stderr = wrapped
            os.environ.update(env or {})
            try:
                status = main(arguments)
            except SystemExit as end:
                status = int(end.code or 0)
        finally:
            sys.stdin, sys.stdout, sys.stderr, environ = before
            os.environ.clear()
            os.environ.update(environ)
            for each in wrapped:
                each.close()
        for file in files[1:]:
            file.seek(0)
        return Ended(status, files[1].read(), files[2].read().decode())


def program(*arguments: str, given: bytes = b"", env: Mapping[str, str] | None = None) -> Ended:
    """Run a command as a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "streamd.cli", *arguments],
        input=given,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), **(env or {})},
        timeout=120,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr.decode())


def on_terminal(case: DaemonCase, *arguments: str) -> tuple[int, str]:
    """Run a command on a terminal; its exit status and all that is seen there."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT), "TERM": "xterm", "COLUMNS": "100", **environment(case.daemon)}
    with subprocess.Popen(
        [sys.executable, "-m", "streamd.cli", *arguments], env=env, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        case.addCleanup(process.kill)
        os.close(theirs)
        seen = b""
        try:
            while data := os.read(ours, 65536):
                seen += data
        except OSError:
            pass  # how a terminal says that nobody is there any more
        os.close(ours)
        return process.wait(60), seen.decode("utf-8", "replace")
