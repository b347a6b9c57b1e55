"""Writes the golden store of the current format: ``python -m tests.store.golden.make`` makes ``v<VERSION>`` anew.

Run it only while a format is not released yet. After that its folder never changes again: a new format gets a new
folder, and the old ones must still open. The store holds every kind of entry, in several journal files. It was killed
once and started again, so its last commits of then were written again; what was there by then is in packs, with a block
that segments share, a hidden segment, one that was published, and broadcasts; behind that the journal goes on with all
of it once more. At its end it was closed in order. ``expected.json`` says what is in it.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from typing import Any

from streamd.batch import Batch
from streamd.store import Append, Level, Store
from streamd.store.disk import Disk
from streamd.store.journal.frame import VERSION
from streamd.store.records.offsets import TAG_RAW
from tests.rigs.store.inline import SMALL, Compactor, InlineWriter, call, open_inline, read_all, result_of
from tests.rigs.store.model import contents, segments

HERE = os.path.dirname(os.path.abspath(__file__))
SETTINGS = replace(SMALL, journal_file_bytes=2048)
KEPT = {"identity", "journal", "packs", "catalog.sqlite"}
"""What makes a store; locks and the like are made anew."""


def describe(store: Store) -> dict[str, Any]:
    """Everything in a store, as JSON can say it."""
    found: dict[str, Any] = {}
    found_segments = segments(store)
    for name, (places, records, levels, groups, attributes) in contents(store).items():
        segment = found_segments[name]
        runs = read_all(store, segment)
        found[name] = {
            "id": segment.id,
            "created": segment.created,
            "modified": segment.modified,
            "places": list(places),
            "records": [[number, offset, tag, data.hex()] for number, offset, tag, data in records],
            "timestamps": [[run.number, run.timestamp] for run in runs],
            "levels": {writer.hex(): level for writer, level in levels.items()},
            "groups": {group: [position, sorted(above)] for group, (position, above) in groups.items()},
            "attributes": {key.hex(): value.hex() for key, value in attributes.items()},
        }
    return found


NAMES = ("plain", "ünï/cödé", "gone")


def first_life(store: Store, writer: InlineWriter, where: str = "") -> None:
    """Create, append in all ways, fan out, truncate."""
    plain, both, gone = (call(writer, store.create, where + name) for name in NAMES)
    call(writer, store.append, plain, Batch.of([b"first", b"", b"\0\n\xff"]))
    call(writer, store.append, plain, Batch.of([b"raw"]), tag=TAG_RAW | 7)
    call(writer, store.append, both, Batch.of([b"from a writer"]), writer=bytes(range(16)), expected=0, level=41)
    parts = [Append(plain, Batch.of([b"atomic"])), Append(gone, Batch.of([b"gone"]), 3, b"w" * 16, -5, -1, -5)]
    call(writer, store.append_all, parts)
    call(writer, store.fan_out, [plain, both, plain], Batch.of([b"many", b"times"]), tag=9)
    call(writer, store.truncate, plain, 1)
    call(writer, store.append, plain, Batch.of([bytes([65 + each]) * 90 for each in range(8)]))


def second_life(store: Store, writer: InlineWriter, where: str = "") -> None:
    """Groups, attributes, levels that are raised, seal, delete, and a name that is used again."""
    plain, both, gone = (store.find(where + name) for name in NAMES)
    call(writer, store.set_group, plain, "readers", 2)
    call(writer, store.acknowledge, plain, "readers", [(2, 3), (5, 7), (9, 10)])
    call(writer, store.acknowledge, plain, "others", [(1, 2)])
    call(writer, store.set_group, plain, "dropped", 3)
    call(writer, store.drop_group, plain, "dropped")
    call(writer, store.set_attribute, both, b"key", b"value")
    call(writer, store.set_attribute, both, b"empty", b"")
    call(writer, store.set_attribute, both, b"removed", b"x")
    call(writer, store.set_attribute, both, b"removed", None)
    call(writer, store.append, both, Batch.of([]), writer=bytes(range(16)), expected=41, level=42)
    call(writer, store.seal, both)
    call(writer, store.delete, gone)
    call(writer, store.create, where + "gone")


def hide(store: Store, writer: InlineWriter, where: str = "") -> None:
    """Hidden segments: one that waits to be published, one that is published, with an ack level."""
    waiting = call(writer, store.create, where + "waiting", hidden=True)
    published = call(writer, store.create, where + "published", hidden=True)
    call(writer, store.append, waiting, Batch.of([b"not yet"]), tag=5)
    call(writer, store.append, published, Batch.of([b"written long", b"before"]))
    call(writer, store.append, published, Batch.of([b"raw too"]), tag=TAG_RAW)
    call(writer, store.fan_out, [published, store.find("plain")], Batch.of([b"shared with a hidden one"]))
    plain = store.find("plain")
    level = Level(plain, b"p" * 16, 0, 6)
    if where:
        level = level._replace(expected=6, level=9)
    call(writer, store.publish, [(published, plain)], [level])
    call(writer, store.append, plain, Batch.of([b"behind what was published"]))


STREAMS = ("faststream/0", "faststream/4294967295", "faststream/7")


def broadcast(store: Store, writer: InlineWriter) -> None:
    """What goes to all: before and between records of their own, left out, sealed, truncated."""
    first, second, third = (call(writer, store.create, name) for name in STREAMS)
    call(writer, store.broadcast, Batch.of([b"to all"]))
    call(writer, store.append, first, Batch.of([b"its own"]))
    call(writer, store.broadcast, Batch.of([b"to two", b"of them"]), tag=4, without=[second])
    call(writer, store.seal, third)
    call(writer, store.broadcast, Batch.of([b"raw"]), tag=TAG_RAW)
    call(writer, store.truncate, first, 1)


def make(target: str) -> None:
    """Write the store and what is in it into a new directory."""
    disk = Disk()
    data = os.path.join(target, "store")
    store, writer = open_inline(disk, SETTINGS, directory=data)
    first_life(store, writer)
    # A daemon that ends without closing lets go of its files, and so of its lock.
    store._reader.close()
    store._on_closed()
    store, writer = open_inline(disk, SETTINGS, directory=data, now=2_000_000)
    compactor = Compactor(disk, store, data)
    second_life(store, writer)
    broadcast(store, writer)
    compactor.fold()
    hide(store, writer)
    # A new file begins with each start, so all of it is in closed ones.
    compactor.catalog.close()
    result_of(store.close())
    store, writer = open_inline(disk, SETTINGS, directory=data, now=3_000_000)
    compactor = Compactor(disk, store, data)
    compactor.fold()
    call(writer, store.publish, [(store.find_hidden("waiting"), store.find("plain"))])
    first_life(store, writer, "new/")
    second_life(store, writer, "new/")
    hide(store, writer, "new/")
    call(writer, store.broadcast, Batch.of([b"again"]), without=[store.find(STREAMS[0])])
    call(writer, store.create, "faststream/1")
    call(writer, store.append, store.find(STREAMS[1]), Batch.of([b"behind it"]))
    call(writer, store.broadcast, Batch.of([b"at the end"]))
    expected = describe(store)
    result_of(store.close())
    # Last, so that SQLite puts everything into the one file.
    compactor.catalog.close()
    for name in os.listdir(data):
        if name not in KEPT:
            os.unlink(os.path.join(data, name))
    with open(os.path.join(target, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(expected, file, indent=1, ensure_ascii=False, sort_keys=True)
        file.write("\n")


def main() -> None:
    """Replace the folder of the current version."""
    target = os.path.join(HERE, f"v{VERSION}")
    shutil.rmtree(target, ignore_errors=True)
    os.mkdir(target)
    make(target)


if __name__ == "__main__":
    main()
