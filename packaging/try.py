"""What packaging/try does with the service, inside of the container that it has booted. It needs nothing but Python."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

DEADLINE_SECONDS = 120.0
PACKS = Path("/var/lib/private/streamd/packs")


def show(name: str) -> str:
    """A property of the service."""
    command = ["systemctl", "show", "--property", name, "--value", "streamd.service"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def wait_until(what: str, holds: Callable[[], object]) -> None:
    """Look again and again."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.1)


def ask(lines: bytes, answers: int) -> list[bytes]:
    """Answers of SESP, on a connection of their own."""
    connection = socket.create_connection(("127.0.0.1", 4840), DEADLINE_SECONDS)
    with connection, connection.makefile("rwb") as stream:
        stream.write(lines)
        stream.flush()
        return [stream.readline() for _ in range(answers)]


def active() -> bool:
    """Whether the service serves."""
    return show("ActiveState") == "active"


def tried() -> None:
    """All that is tried; an AssertionError says what is wrong."""
    wait_until("the service is started", active)
    status = Path(f"/proc/{show('MainPID')}/status").read_text()
    assert "CapBnd:\t0000000000000000" in status and "Seccomp:\t2" in status, status
    assert ask(b"#t\n@t\n" + (b">" + b"x" * 65536 + b"\n") * 64, 66) == [b"+\n"] * 66
    wait_until("the compactor has folded", lambda: list(PACKS.glob("*.pack")))
    wait_until("the status tells of it", lambda: show("StatusText").startswith("segments 1, "))
    # Stopped as if its reactor hung: systemd has to see that, end it and start another, which has everything.
    os.kill(int(show("MainPID")), signal.SIGSTOP)
    wait_until("the watchdog has bitten", lambda: show("NRestarts") == "1" and active())
    assert ask(b"@t\n$63\n<\n<\n", 4)[2:] == [b"+" + b"x" * 65536 + b"\n", b"-None\n"]
    subprocess.run(["systemctl", "stop", "streamd.service"], check=True)
    assert show("Result") == "success" and show("ExecMainStatus") == "0"


if __name__ == "__main__":
    try:
        tried()
        result = "all is well"
    except Exception as error:
        result = f"{error!r}\n" + subprocess.run(["journalctl", "-u", "streamd"], capture_output=True, text=True).stdout
    Path(sys.argv[1]).write_text(f"{result}\n")
