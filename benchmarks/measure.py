"""How what most cases measure is measured: a freshly started server is loaded, and the figures go by name."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

from benchmarks.case import MIB, P50, P99, RATE, Bench, Figure, Sample
from benchmarks.load import LoadError, Mode, Result
from benchmarks.servers import Running
from benchmarks.watch import cpu_seconds

# Peers get less time than bytes: what takes streamd a second takes them ten.
PEER_SECONDS = 5.0
_BOUNDED_BY_BYTES = ("limit", "streamd")


def sampled(result: Result, *figures: Figure) -> Sample:
    """These figures of a result, and how busy the load generator was."""
    return {**{each.name: getattr(result, each.name) for each in figures}, "load_cpu_share": result.cpu_share}


def publish(bench: Bench, server: Running, *, size: int, total_bytes: int = 256 * MIB, connections: int = 1) -> Sample:
    """Pipelined publish, each message acknowledged."""
    seconds = 0.0 if server.name in _BOUNDED_BY_BYTES else bench.seconds(PEER_SECONDS)
    messages = bench.messages(total_bytes, size)
    load = bench.load.run(server, "publish", size=size, messages=messages, seconds=seconds, connections=connections)
    return sampled(load, RATE)


def one_at_a_time(
    bench: Bench, server: Running, *, connections: int, size: int = 100, seconds: float = 5, mode: Mode = "ping"
) -> Sample:
    """Each connection publishes a message, waits for its acknowledgement, publishes the next."""
    result = bench.load.run(server, mode, size=size, connections=connections, seconds=bench.seconds(seconds))
    return sampled(result, RATE, P50, P99)


def read(bench: Bench, server: Running, *, size: int, total_bytes: int = 256 * MIB, mode: Mode = "read") -> Sample:
    """Publish, then read all of it back on a new connection, pipelined as the protocol allows."""
    seconds = 0.0 if server.name in _BOUNDED_BY_BYTES else bench.seconds(PEER_SECONDS)
    stored = bench.load.run(server, "publish", size=size, messages=bench.messages(total_bytes, size), seconds=seconds)
    return sampled(bench.load.run(server, mode, size=size, messages=stored.messages), RATE)


def read_one_at_a_time(
    bench: Bench, server: Running, *, connections: int, messages: int, size: int = 100, seconds: float = 5
) -> Sample:
    """Each connection asks for one of the messages that are there, waits for it, asks for the next."""
    bench.load.run(server, "publish", size=size, messages=bench.count(messages))
    result = bench.load.run(server, "fetch", size=size, connections=connections, seconds=bench.seconds(seconds))
    return sampled(result, RATE, P50, P99)


def idle(bench: Bench, server: Running, *, connections: int, seconds: float = 5) -> Sample:
    """Resident memory with many connections that were used once, and what they cost while nothing happens."""
    with ExitStack() as stack:
        made = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            for _ in range(bench.count(connections))
        ]
        for each in made:
            each.sendall(b"?\n")
        for each in made:
            if each.recv(64) != b"+[]\n":
                raise LoadError("a connection was not answered")
        before = cpu_seconds(server.process.pid)
        time.sleep(bench.seconds(seconds))
        used = cpu_seconds(server.process.pid) - before
        return {"idle_mb": server.memory_bytes() / 1e6, "idle_ms": used * 1e3}


def memory_through(bench: Bench, server: Running, *, total_bytes: int, size: int = 1_000) -> Sample:
    """Resident memory before, and after many bytes went in and came out again."""
    messages = bench.messages(total_bytes, size)
    sample = {"start_mb": server.memory_bytes() / 1e6}
    bench.load.run(server, "publish", size=size, messages=messages, timeout_seconds=600)
    sample["published_mb"] = server.memory_bytes() / 1e6
    bench.load.run(server, "read", size=size, messages=messages, timeout_seconds=600)
    sample["read_mb"] = server.memory_bytes() / 1e6
    return sample


def memory_topics(bench: Bench, server: Running, *, topics: int) -> Sample:
    """Resident memory before, and after many topics were created, and how fast that went."""
    sample = {"start_mb": server.memory_bytes() / 1e6}
    result = bench.load.run(server, "topics", messages=bench.count(topics), topic="t", timeout_seconds=600)
    sample["topics_mb"] = server.memory_bytes() / 1e6
    sample["rate"] = result.rate
    return sample
