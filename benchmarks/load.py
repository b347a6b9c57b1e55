"""Drive a server with a load generator, `load.c` or, for QUIC, `quic_load.py`: each prints a line of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.servers import Running

Mode = Literal["publish", "ping", "confirm", "fetch", "everybody", "read", "take", "topics", "fill"]
QuicKind = Literal["write", "subscribe", "single", "handshakes"]

_ROOT = Path(__file__).resolve().parent.parent

# Large enough that a slow sync does not leave the server without work, small enough that it is no flood.
WINDOW_BYTES = 4 << 20


class LoadError(Exception):
    """The load did not go through: a server refused, closed, or took too long. The text says which."""


@dataclass(frozen=True)
class Result:
    """What one load did. Latencies are zero where they are not measured."""

    messages: int
    seconds: float
    rate: float
    cpu_seconds: float
    p50_us: float = 0.0
    p99_us: float = 0.0
    max_us: float = 0.0

    @property
    def cpu_share(self) -> float:
        """How much of one core the load generator itself used: near 1.0 it, not the server, may be the limit."""
        return self.cpu_seconds / self.seconds


@dataclass(frozen=True)
class Load:
    """The load generator, compiled."""

    program: Path

    def run(
        self,
        server: Running,
        mode: Mode,
        *,
        size: int = 100,
        messages: int = 0,
        seconds: float = 0,
        connections: int = 1,
        topic: str = "bench",
        timeout_seconds: float = 120,
    ) -> Result:
        """Run one load to its end: all messages or all seconds, whichever comes first."""
        options = {
            "port": server.port,
            "size": size,
            "messages": messages,
            "seconds": seconds,
            "connections": connections,
            "window": WINDOW_BYTES,
            "topic": topic,
            "timeout": timeout_seconds,
        }
        command = [str(self.program), server.wire, mode, *(f"--{name}={value}" for name, value in options.items())]
        return _run(mode, command, timeout_seconds)


def run_quic(
    server: Running,
    kind: QuicKind,
    *,
    messages: int = 0,
    seconds: float = 0,
    datagram_bytes: int = 1_200,
    timeout_seconds: float = 120,
) -> Result:
    """The same for a QUIC server."""
    certificate = server.directory / "data" / "quic-ca.pem"
    options = {
        "port": server.port,
        "certificate": certificate,
        "messages": messages,
        "seconds": seconds,
        "datagram-bytes": datagram_bytes,
    }
    command = [sys.executable, "-m", "benchmarks.quic_load", kind]
    command += [f"--{name}={value}" for name, value in options.items()]
    command += ["--sink"] if server.wire == "sink" else []
    return _run(kind, command, timeout_seconds)


def _run(what: str, command: Sequence[str], timeout_seconds: float) -> Result:
    try:
        # The program ends itself at the timeout, with a better text; the grace is for connecting before it.
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout_seconds + 60, cwd=_ROOT
        )
    except subprocess.TimeoutExpired:
        raise LoadError(f"{what}: the load generator hung for {timeout_seconds + 60:.0f} s")
    if done.returncode:
        raise LoadError(f"{what}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return Result(**json.loads(done.stdout))
