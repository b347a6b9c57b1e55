"""Reader groups and delayed messages, measured with the Python client: deliveries a second, memory, lateness."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import streamd
from benchmarks.case import RATE, Bench, Case, Figure, Sample, alone
from benchmarks.servers import Running
from streamd.batch import Batch
from streamd.client.blocking import StorageClient

_TOPIC = "groups"
_BATCH = 10_000


def _address(server: Running) -> str:
    return f"127.0.0.1:{server.port}"


def _fill(server: Running, messages: int, *, due: int = 0) -> None:
    with StorageClient(_address(server)) as client:
        segment = client.create(_TOPIC).id
        for first in range(0, messages, _BATCH):
            client.store(segment, Batch.of([b"x" * 100] * min(_BATCH, messages - first)), due=due)


def shared(bench: Bench, server: Running, *, messages: int, members: int) -> Sample:
    """How many messages a second members of one group take and acknowledge, those of a request together."""
    total = bench.count(messages)
    _fill(server, total)

    async def main() -> float:
        left = total
        async with streamd.connect(_address(server)) as client:

            async def member() -> None:
                nonlocal left
                subscription = client.subscribe(_TOPIC, group="bench", prefetch=max(10, min(1000, total // members)))
                async for record in subscription:
                    numbers = [record, *subscription.waiting()]
                    await client.ack_all(numbers)
                    left -= len(numbers)
                    if left <= 0:
                        ended.set()

            ended = asyncio.Event()
            began = time.perf_counter()
            tasks = [asyncio.create_task(member()) for _ in range(members)]
            await asyncio.wait_for(ended.wait(), 600)
            seconds = time.perf_counter() - began
            for task in tasks:
                task.cancel()
        return total / seconds

    return {RATE.name: asyncio.run(main())}


def delayed(bench: Bench, server: Running, *, messages: int, seconds: float) -> Sample:
    """The memory that waiting messages take, and how late the last one of those that are due together comes."""
    total = bench.count(messages)
    before = server.memory_bytes()
    # Spread over what is far: they wait, and one thousand of them come soon.
    _fill(server, total, due=int((time.time() + 7 * 86400) * 1e6))
    waiting = server.memory_bytes() - before
    with StorageClient(_address(server)) as client:
        segment = client.create("soon").id
        due = time.time() + seconds
        client.store(segment, Batch.of([b"x" * 100] * 1000), due=int(due * 1e6))
        while client.segment(segment).number < 1000:
            time.sleep(0.001)
        late = time.time() - due
    return {"waiting_mb": waiting / 1e6, "late_ms": 1000 * late}


GROUPS: tuple[Case, ...] = (
    *(
        alone(
            f"groups-{members}",
            f"a reader group with acknowledgements, 100 B, {members} members",
            partial(shared, messages=200_000, members=members),
            RATE,
            service="pravega",
        )
        for members in (1, 10, 100)
    ),
    alone(
        "delayed-million",
        "a million delayed messages of 100 B",
        partial(delayed, messages=1_000_000, seconds=3.0),
        Figure("waiting_mb", "memory that they add", "MB", 1),
        Figure("late_ms", "lateness of the last of 1,000 that are due at once", "ms", 1),
        service="pravega",
        rounds_max=1,
    ),
)
