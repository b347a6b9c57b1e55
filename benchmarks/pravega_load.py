"""Pravega's public client as a load generator: ``python -m benchmarks.pravega_load KIND PORT COUNT`` prints JSON.

A process of its own: the client has threads of its own, and holds Python's lock while it waits.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from statistics import median
from typing import Any

_EVENT = b"x" * 100
_PIECE = bytes(1 << 20)


def events(manager: Any, count: int) -> dict[str, float]:
    """Events of 100 bytes, a thousand in flight."""
    manager.create_stream("scope", "events", 1)
    writer = manager.create_writer("scope", "events", 1000)
    begun = time.perf_counter()
    for _ in range(count):
        writer.write_event_bytes(_EVENT)
    writer.flush()
    return {"rate": count / (time.perf_counter() - begun)}


def group(manager: Any, count: int) -> dict[str, float]:
    """The same, read back by a reader of a group."""
    events(manager, count)
    reader = manager.create_reader_group("group", "scope", "events").create_reader("reader")

    async def read() -> None:
        found = 0
        while found < count:
            taken = await reader.get_segment_slice_async()
            found += sum(1 for _ in taken)
            reader.release_segment(taken)

    begun = time.perf_counter()
    asyncio.run(read())
    return {"rate": count / (time.perf_counter() - begun)}


def stream(manager: Any, count: int) -> dict[str, float]:
    """A byte stream, in pieces of 1 MiB."""
    manager.create_stream("scope", "bytes", 1)
    written = manager.create_byte_stream("scope", "bytes")
    begun = time.perf_counter()
    for _ in range(count):
        written.write(_PIECE)
    written.flush()
    return {"mb": count * len(_PIECE) / 1e6 / (time.perf_counter() - begun)}


def streams(manager: Any, count: int) -> dict[str, float]:
    """Streams of one segment, made one after the other."""
    seconds = []
    for number in range(count):
        begun = time.perf_counter()
        manager.create_stream("scope", f"stream{number}", 1)
        seconds.append(time.perf_counter() - begun)
    return {"p50_us": median(seconds) * 1e6, "rate": count / sum(seconds)}


KINDS: dict[str, Callable[[Any, int], dict[str, float]]] = {
    "events": events,
    "group": group,
    "stream": stream,
    "streams": streams,
}

if __name__ == "__main__":
    _, kind, port, count = sys.argv
    client = import_module("pravega_client").StreamManager(f"tcp://127.0.0.1:{port}")
    client.create_scope("scope")
    print(json.dumps(KINDS[kind](client, int(count))))
