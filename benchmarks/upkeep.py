"""What the store does in the background, measured: compaction, retention, memory, disk use and restart of streamd."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import mean

from benchmarks.case import MIB, RATE, Bench, Case, Figure, Sample, alone, at_least, at_most
from benchmarks.servers import Running, ServerError, resident_bytes
from benchmarks.watch import (
    ask,
    compactor,
    disk_bytes,
    journal_files,
    live_bytes,
    off_and_on,
    settle,
    stopped,
    watched,
)

_GB = 1_000_000_000
_LOAD_SECONDS_MAX = 900.0


def compaction_publish(bench: Bench, server: Running, *, total_bytes: int, size: int = 100) -> Sample:
    """Publish rates with compaction off and on, and read rates from the journal and from packs."""
    half, part = bench.messages(total_bytes // 2, size), bench.messages(256 * MIB, size)

    def publish(topic: str, messages: int) -> float:
        return bench.load.run(
            server, "publish", size=size, messages=messages, topic=topic, timeout_seconds=_LOAD_SECONDS_MAX
        ).rate

    def read(topic: str) -> float:
        return bench.load.run(server, "read", size=size, messages=part, topic=topic).rate

    published = off_and_on(server, lambda: publish("packed", half))
    with stopped(server):
        publish("fresh", part)
        from_journal, from_packs = [], []
        from_journal.append(read("fresh"))
        from_packs += [read("packed"), read("packed")]
        from_journal.append(read("fresh"))
    return {
        **published.sample(),
        "behind": published.behind,
        "journal": mean(from_journal),
        "packs": mean(from_packs),
        "read_ratio": mean(from_packs) / mean(from_journal),
    }


def compaction_latency(bench: Bench, server: Running, *, seconds: float, size: int = 1_000) -> Sample:
    """What one connection waits for its reply beside a bulk load, with compaction off and on."""
    each = bench.seconds(seconds)

    def waited() -> float:
        with ThreadPoolExecutor(1) as pool:
            # It begins before and ends after the other.
            bulk = pool.submit(bench.load.run, server, "publish", size=size, seconds=each + 2, topic="bulk")
            time.sleep(1)
            result = bench.load.run(server, "ping", seconds=each, topic="other")
            bulk.result()
        return result.p99_us

    return off_and_on(server, waited, settled=False).sample()


def memory_retention(bench: Bench, server: Running, *, total_bytes: int, size: int = 1_000) -> Sample:
    """The most resident memory and disk room while many bytes go through and few are kept."""
    messages = bench.messages(total_bytes, size)
    with watched(
        daemon=lambda: resident_bytes(server.process.pid),
        compactor=lambda: resident_bytes(compactor(server)),
        disk=lambda: disk_bytes(server),
    ) as highest:
        result = bench.load.run(server, "publish", size=size, messages=messages, timeout_seconds=_LOAD_SECONDS_MAX)
    return {
        "daemon_mb": highest["daemon"] / 1e6,
        "compactor_mb": highest["compactor"] / 1e6,
        "disk_mb_max": highest["disk"] / 1e6,
        "rate": result.rate,
    }


def disk_churn(bench: Bench, server: Running, *, seconds: float, topics: int, topic_bytes: int) -> Sample:
    """Topics come, are filled, cut by retention and go; afterwards, what the disk holds for what can be read."""
    writers, size = 4, 1_000
    written, names = 0, iter(range(1_000_000))
    end = time.monotonic() + bench.seconds(seconds)
    alive: list[str] = []
    while time.monotonic() < end or len(alive) < topics:
        # Several at a time, so that packs hold records of several topics; a third more than retention leaves.
        some = [f"churn-{next(names)}" for _ in range(writers)]
        with ThreadPoolExecutor(writers) as pool:
            messages = bench.messages(topic_bytes * 4 // 3, size)
            loads = [
                pool.submit(bench.load.run, server, "publish", size=size, messages=messages, topic=each)
                for each in some
            ]
            written += sum(each.result().messages for each in loads) * size
        alive += some
        # Not the oldest ones alone: what dies lies between what lives.
        gone = [alive.pop(index) for index in (0, len(alive) // 2, len(alive) // 3, 1) if len(alive) > topics]
        ask(server, *(f"!{each}" for each in gone))
    first = disk_bytes(server) / live_bytes(server)
    time.sleep(5)
    settle(server)
    live = live_bytes(server)
    return {
        "written_mb": written / 1e6,
        "live_mb": live / 1e6,
        "at_once": first,
        "ratio": disk_bytes(server) / live,
    }


def restart(bench: Bench, server: Running, *, total_bytes: int, commits: int) -> Sample:
    """Kill -9 with much stored and as many small commits in the journal as there may be, and start again."""
    stored = bench.messages(total_bytes, 1_000)
    bench.load.run(server, "publish", size=1_000, messages=stored, topic="stored", timeout_seconds=_LOAD_SECONDS_MAX)
    settle(server)
    idle = server.kill_and_restart()
    single = bench.count(commits)
    with stopped(server):
        bench.load.run(server, "ping", messages=single, topic="single", timeout_seconds=_LOAD_SECONDS_MAX)
        files = journal_files(server)
        seconds = server.kill_and_restart()
    for topic, messages in (("stored", stored), ("single", single)):
        (told,) = ask(server, f"?{topic}")
        if json.loads(told[1:])["messages"] != messages:
            raise ServerError(f"{topic} had {messages} messages before the restart and has {told} now")
    return {"idle": idle, "seconds": seconds, "files": files, "memory_mb": server.memory_bytes() / 1e6}


def memory_million(bench: Bench, server: Running, *, topics: int) -> Sample:
    """Resident memory with many topics of one small message each, and the restart after it."""
    count = bench.count(topics)
    with watched(daemon=lambda: resident_bytes(server.process.pid)) as highest:
        bench.load.run(server, "topics", messages=count, topic="t", timeout_seconds=_LOAD_SECONDS_MAX)
        # Each message takes a connection of its own; more at a time than a listening socket queues would wait for it.
        bench.load.run(
            server, "fill", messages=count, size=10, connections=40, topic="t", timeout_seconds=_LOAD_SECONDS_MAX
        )
        settle(server)
        sample = {"filled_mb": server.memory_bytes() / 1e6}
    sample["highest_mb"] = highest["daemon"] / 1e6
    sample["seconds"] = server.kill_and_restart()
    sample["restarted_mb"] = server.memory_bytes() / 1e6
    return sample


# -- the cases ---------------------------------------------------------------------------------------------------------


def _kept(pattern: str, bytes_max: int) -> str:
    """Settings: keep so many bytes of each topic with such a name, and look twice a second."""
    return f'retention_seconds = 0.5\n[[retention]]\npattern = "{pattern}"\nbytes_max = {bytes_max}\n'


_SHARE = Figure("share", "compactor, of one core", "%")
_ON_OFF = Figure("ratio", "on/off", "", 2)

UPKEEP: tuple[Case, ...] = (
    alone(
        "compaction-publish",
        "publish 100 B, pipelined, 1 GB with compaction on",
        partial(compaction_publish, total_bytes=_GB),
        Figure("off", "messages/s, compaction off", "/s"),
        Figure("on", "messages/s, compaction on", "/s"),
        _ON_OFF,
        Figure("behind", "journal files not folded at the end", ""),
        _SHARE,
        Figure("journal", "messages read/s from the journal", "/s"),
        Figure("packs", "messages read/s from packs", "/s"),
        Figure("read_ratio", "packs/journal", "", 2),
        goals=(at_least("ratio", 0.75), at_least("read_ratio", 0.75)),
    ),
    alone(
        "compaction-latency",
        "publish 100 B, one at a time, beside a bulk load",
        partial(compaction_latency, seconds=3),
        Figure("off", "p99, compaction off", "µs"),
        Figure("on", "p99, compaction on", "µs"),
        _ON_OFF,
        _SHARE,
        goals=(at_most("ratio", 2.0),),
    ),
    alone(
        "memory-20gb",
        "20 GB through in 1 KB messages, 1 GB kept",
        partial(memory_retention, total_bytes=20 * _GB),
        Figure("daemon_mb", "most memory, daemon", "MB"),
        Figure("compactor_mb", "most memory, compactor", "MB"),
        Figure("disk_mb_max", "most disk", "MB"),
        RATE,
        goals=(at_most("daemon_mb", 250),),
        settings=_kept("bench", _GB),
        rounds_max=1,
    ),
    alone(
        "disk-churn",
        "topics filled, cut and deleted for a minute",
        partial(disk_churn, seconds=60, topics=20, topic_bytes=75_000_000),
        Figure("written_mb", "written", "MB"),
        Figure("live_mb", "live at the end", "MB"),
        Figure("at_once", "disk/live at once", "", 2),
        Figure("ratio", "disk/live some seconds later", "", 2),
        goals=(at_most("ratio", 1.3),),
        settings=_kept("churn-*", 75_000_000),
        rounds_max=1,
    ),
    alone(
        "restart",
        "ready after kill -9, 10 GB stored, 190,000 one-record commits",
        partial(restart, total_bytes=10 * _GB, commits=190_000),
        Figure("idle", "with all folded", "s", 2),
        Figure("seconds", "with the full journal", "s", 2),
        Figure("files", "journal files", ""),
        Figure("memory_mb", "memory after it", "MB"),
        goals=(at_most("seconds", 3.0),),
        # A sync for each commit would take minutes. What recovery finds is the same, but for the last 100 ms.
        settings='sync = "interval"\n',
        rounds_max=1,
    ),
    alone(
        "memory-million",
        "a million topics with a message each",
        partial(memory_million, topics=1_000_000),
        Figure("filled_mb", "memory", "MB"),
        Figure("highest_mb", "most memory on the way", "MB"),
        Figure("seconds", "ready after kill -9", "s", 2),
        Figure("restarted_mb", "memory after that", "MB"),
        goals=(at_most("filled_mb", 1_074),),
        rounds_max=1,
    ),
)
