"""A store with everything in it, in several files of each kind, to be damaged."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from streamd.batch import Batch
from streamd.store import Level
from streamd.store.records.offsets import TAG_RAW
from tests.rigs.store.inline import SMALL, Compactor, call, open_inline, result_of
from tests.rigs.store.simulated import SimulatedDisk

SETTINGS = replace(SMALL, journal_file_bytes=2048)


def make() -> SimulatedDisk:
    """A disk with a store that has everything in several files of each kind, closed in order."""
    disk = SimulatedDisk()
    store, writer = open_inline(disk, SETTINGS)
    compactor = Compactor(disk, store)
    a, b, c = (call(writer, store.create, name) for name in ("a", "b", "c"))
    hidden = call(writer, store.create, "h", hidden=True)
    call(writer, store.create, "waiting", hidden=True)
    rng = Random(1)
    for round_ in range(12):
        call(writer, store.append, a, Batch.of([rng.randbytes(90), b"", rng.randbytes(30)]))
        call(writer, store.append, b, Batch.of([rng.randbytes(60)]), tag=TAG_RAW | round_)
        call(writer, store.fan_out, [a, b, hidden], Batch.of([rng.randbytes(70)]))
        if round_ in (3, 7):
            call(writer, store.append, hidden, Batch.of([rng.randbytes(40)]), writer=b"w" * 16, expected=0, level=1)
            compactor.fold()
        if round_ == 5:
            call(writer, store.publish, [(hidden, c)], [Level(c, b"p" * 16, 0, 7)])
            hidden = call(writer, store.create, "h", hidden=True)
            call(writer, store.truncate, a, 2)
            call(writer, store.set_group, a, "g", 4)
            call(writer, store.acknowledge, a, "g", [(6, 9)])
            call(writer, store.set_attribute, b, b"key", b"value")
    result_of(store.close())
    return disk
