"""A store with some of everything that a fold has to do with."""

from __future__ import annotations

from streamd.batch import Batch
from streamd.store import Level, Store
from tests.rigs.store.inline import InlineWriter, call


def fill(store: Store, writer: InlineWriter) -> None:
    """Write some of everything that a fold has to do with, into several journal files."""
    names = ("a", "b", "faststream/1", "faststream/2")
    a, b, one, two = [store.find_claimed(name) or call(writer, store.create, name) for name in names]
    hidden = call(writer, store.create, "h", hidden=True)
    for number in range(8):
        call(writer, store.append, a, Batch.of([b"a%d" % number * 150, b""]))
        call(writer, store.append, hidden, Batch.of([b"hidden %d" % number]))
        call(writer, store.fan_out, [a, one, hidden], Batch.of([b"fan %d" % number * 20]))
        call(writer, store.broadcast, Batch.of([b"all %d" % number]), without=[two] if number % 3 else [])
    call(writer, store.publish, [(hidden, b)], [Level(b, hidden.id.to_bytes(16, "big"), 0, 5)])
