"""streamd under Pravega's public client: events, byte streams, reader groups, streams. Needs the package pravega."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

from benchmarks.case import P50, RATE, Bench, Case, Figure, Sample, alone, at_least, at_most
from benchmarks.load import LoadError
from benchmarks.servers import Running


def client(bench: Bench, server: Running, *, kind: str, count: int) -> Sample:
    """What the client of `benchmarks.pravega_load` reaches."""
    command = [sys.executable, "-m", "benchmarks.pravega_load", kind, str(server.port), str(bench.count(count))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise LoadError(f"Pravega's client failed: {done.stderr[-1000:]}")
    sample: Sample = json.loads(done.stdout)
    return sample


def memory(bench: Bench, server: Running, *, count: int) -> Sample:
    """Streams, and what the daemon takes with them."""
    start = server.memory_bytes() / 1e6
    sample = client(bench, server, kind="streams", count=count)
    return {**sample, "start_mb": start, "streams_mb": server.memory_bytes() / 1e6}


PRAVEGA: tuple[Case, ...] = (
    alone(
        "client-events",
        "Pravega's client, 100 B events, 1,000 in flight, 1 segment",
        partial(client, kind="events", count=1_000_000),
        RATE,
        goals=(at_least("rate", 250_000),),
        service="controller",
    ),
    alone(
        "client-group",
        "Pravega's client, the same events by a reader group",
        partial(client, kind="group", count=1_000_000),
        RATE,
        goals=(at_least("rate", 200_000),),
        service="controller",
    ),
    alone(
        "client-bytes",
        "Pravega's client, a byte stream in pieces of 1 MiB",
        partial(client, kind="stream", count=1_000),
        Figure("mb", "MB/s", "/s"),
        goals=(at_least("mb", 150),),
        service="controller",
    ),
    alone(
        "client-streams",
        "Pravega's client, 10,000 streams, made one after the other",
        partial(memory, count=10_000),
        P50,
        Figure("rate", "created/s", "/s"),
        Figure("start_mb", "memory at the start", "MB"),
        Figure("streams_mb", "memory with all of them", "MB"),
        goals=(at_most("streams_mb", 300),),
        service="controller",
        rounds_max=1,
    ),
)
