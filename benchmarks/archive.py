"""The archive's throughput: ``python -m benchmarks.archive``.

Records are published to a daemon and archived to fresh directories in ``local[*]``, from the store's files and from the
daemon, several rounds of each in turn. Bytes are those of the records, without what the store or Parquet add to them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import streamd.spark
from streamd.client import SespClient
from tests.daemon import Daemon

_PUBLISH_AT_ONCE: Final = 20_000
_MB: Final = 1_000_000
_QUIET: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
_PATHS: Final = (b"/", b"/cart", b"/pay", b"/search", b"/item")
_STATUSES: Final = (200, 200, 200, 304, 404)


def log_line(rng: Random, number: int) -> bytes:
    """A line as programs log them: words that come again, numbers that do not."""
    time = (number // 60_000 % 60, number // 1000 % 60, rng.randrange(1_000_000))
    request = (rng.getrandbits(32), rng.choice(_PATHS), rng.randrange(100_000), rng.choice(_STATUSES))
    return b"2026-11-16T10:%02d:%02d.%06dZ INFO shop: request=%08x GET %s/%d status=%d bytes=%d" % (
        *time,
        *request,
        rng.randrange(50_000),
    )


def noise(rng: Random, number: int) -> bytes:
    """What no compressor makes smaller by much."""
    return b"%0100x" % rng.getrandbits(400)


KINDS: Final = {"log lines": log_line, "noise in hex": noise}


def publish(daemon: Daemon, kind: str, records: int) -> int:
    """Put so many records of a kind into the topic of its name; returns their bytes."""
    rng, make, size = Random(1), KINDS[kind], 0
    with SespClient(f"127.0.0.1:{daemon.sesp_port}") as client:
        client.create(kind)
        topic = client.topic(kind)
        for first in range(0, records, _PUBLISH_AT_ONCE):
            some = [make(rng, number) for number in range(first, min(first + _PUBLISH_AT_ONCE, records))]
            size += sum(map(len, some))
            topic.publish(some)
    return size


def stored_bytes(directory: Path) -> int:
    """What the files of an archive take."""
    return sum(path.stat().st_size for path in directory.rglob("*.parquet"))


def measure(daemon: Daemon, directory: Path, sizes: dict[str, int], rounds: int) -> dict[tuple[str, str], list[float]]:
    """MB a second, by kind and by where records are read, round by round."""
    spark = streamd.spark.session("streamd benchmarks", config=_QUIET)
    server = f"127.0.0.1:{daemon.port('pravega')}"
    ways: dict[str, dict[str, str]] = {"path": {"path": str(daemon.data_dir)}, "server": {"server": server}}
    found: dict[tuple[str, str], list[float]] = {}
    for turn in range(rounds + 1):
        for kind, size in sizes.items():
            for way, where in ways.items():
                target = directory / "archive"
                begin = time.monotonic()
                streamd.spark.archive(spark, kind, str(target), group=None, file_bytes=32 << 20, **where)
                rate = size / _MB / (time.monotonic() - begin)
                share = stored_bytes(target) / size
                shutil.rmtree(target)
                # The first round is for compilers and caches.
                if turn:
                    found.setdefault((kind, way), []).append(rate)
                    print(f"{kind}, {way}: {rate:.0f} MB/s, stored in {share:.0%}", file=sys.stderr, flush=True)
    spark.stop()
    return found


def main() -> int:
    """Publish, archive, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.archive", description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, default=Path("build/benchmarks"), help="data, on a real disk (%(default)s)")
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="archive-", dir=options.dir) as made:
        directory = Path(made).resolve()
        with Daemon(str(directory)) as daemon:
            sizes = {kind: publish(daemon, kind, options.records) for kind in KINDS}
            found = measure(daemon, directory, sizes, options.rounds)
    print("| records | read from | MB/s, median |\n|---|---|---|")
    for (kind, way), rates in found.items():
        print(f"| {kind} | {way} | {median(rates):,.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
