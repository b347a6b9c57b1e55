"""A daemon of one's own for a moment: on unix sockets, in a directory that is removed afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final

from streamd.cli.command import UNAVAILABLE, CommandError

_READY: Final = "streamd ready"
_STOP_SECONDS_MAX: Final = 60.0
# What the script `twistd` does, for an interpreter that may have no such script beside it.
_TWISTD: Final = "import sys; sys.argv[0] = 'twistd'; from twisted.scripts.twistd import run; run()"


@contextmanager
def own_daemon(directory: str) -> Iterator[str]:
    """The address of a daemon whose store is below `directory`."""
    from streamd.plugin import found_protocols

    # The sockets are elsewhere: their paths must be short.
    with TemporaryDirectory(prefix="streamctl-") as sockets, _store(directory) as data:
        path = os.path.join(sockets, "pravega")
        options = ["--data-dir", data]
        for protocol in found_protocols():
            options += [f"--{protocol.name}", f"unix:{path}" if protocol.name == "pravega" else "off"]
        with subprocess.Popen(
            [sys.executable, "-c", _TWISTD, "-n", "--pidfile=", "streamd", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            cwd=sockets,
            # Ctrl-C is for us alone: we end it.
            start_new_session=True,
            text=True,
        ) as process:
            try:
                _wait(process)
                yield f"unix:{path}"
            finally:
                _stop(process)


@contextmanager
def _store(directory: str) -> Iterator[str]:
    try:
        home = TemporaryDirectory(prefix="streamctl-bench-", dir=os.path.abspath(directory))
    except OSError as error:
        raise CommandError(f"{directory}: {error.strerror}: give another --dir")
    with home as data:
        yield data


def _wait(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line.rstrip())
        if _READY in line:
            # Read on, so that it never waits for somebody to take its log.
            Thread(target=process.stdout.read, daemon=True).start()
            return
    raise CommandError(f"the daemon did not start: {said[-1] if said else 'it said nothing'}", UNAVAILABLE)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
