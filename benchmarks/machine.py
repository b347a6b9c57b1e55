"""Facts about the machine that belong beside every figure, among them how fast its disk is just now."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

_SYNCS = 200
_CHUNK_BYTES = 1 << 20
_PROBE_BYTES = 16 << 20


def facts() -> dict[str, str]:
    """What the machine is, and how busy it was before the run."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": f"{len(os.sched_getaffinity(0))}, {_processor()}",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load average at the start": f"{os.getloadavg()[0]:.2f}",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def filesystem(directory: Path) -> str:
    """The type of the file system that holds the directory (``ext4``, ``tmpfs`` …)."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, found, *_ = line.split()
        if directory.resolve().is_relative_to(point) and len(point) >= len(best):
            best, kind = point, found
    return kind


def sync_latency_us(directory: Path) -> float:
    """The median of a 4 KiB write with fdatasync, in a preallocated file: the floor under every durable reply."""
    times = []
    with _preallocated(directory / "sync-probe") as file:
        for index in range(_SYNCS):
            begun = time.perf_counter()
            os.pwrite(file, b"x" * 4096, index * 4096)
            os.fdatasync(file)
            times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


def write_rate_mb(directory: Path) -> float:
    """MB/s of 1 MiB writes, each with fdatasync, into a new preallocated file: how the disk is just now."""
    chunk = os.urandom(_CHUNK_BYTES)
    with _preallocated(directory / "write-probe") as file:
        begun = time.perf_counter()
        for position in range(0, _PROBE_BYTES, _CHUNK_BYTES):
            os.pwrite(file, chunk, position)
            os.fdatasync(file)
        return _PROBE_BYTES / 1e6 / (time.perf_counter() - begun)


def write_ballast(directory: Path, size_bytes: int) -> None:
    """Take up that much of the disk until the end of the run.

    On a thin-provisioned disk (most virtual machines) the first write to a block costs the host several times as much
    as each later one: here 0.3 GB/s beside 1.5 GB/s. A server that happens to get blocks which somebody removed a
    moment ago would look five times as fast as its neighbour. So the ballast takes those where there are not more,
    and nothing is removed between the runs: all servers write new blocks, as a log does that grows.
    """
    chunk = os.urandom(_CHUNK_BYTES)
    with (directory / "ballast").open("wb", buffering=0) as file:
        for _ in range(size_bytes // _CHUNK_BYTES):
            file.write(chunk)
        os.fsync(file.fileno())


@contextmanager
def _preallocated(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(file, 0, _PROBE_BYTES)
        os.fsync(file)
        yield file
    finally:
        os.close(file)
        path.unlink()
