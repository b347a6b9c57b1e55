"""Drive a server with the C load generator (`load.c`), which prints its result as one line of JSON."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.servers import Running

Mode = Literal["publish", "ping", "everybody", "read", "take", "topics", "fill"]

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
        try:
            # The program ends itself at the timeout, with a better text; the grace is for connecting before it.
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_seconds + 60)
        except subprocess.TimeoutExpired:
            raise LoadError(f"{mode}: the load generator hung for {timeout_seconds + 60:.0f} s")
        if done.returncode:
            raise LoadError(f"{mode}: {done.stderr.strip() or f'exit code {done.returncode}'}")
        return Result(**json.loads(done.stdout))
