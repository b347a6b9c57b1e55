"""The footer of a pack: rows come out as they went in, and every damaged bit is found."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.store.errors import StoreCorrupt
from streamd.store.packs import footer, pack
from streamd.store.packs.footer import COLUMNS, Adopted, Mark, Told, decode_rows, encode_rows, read_footer, read_rows
from tests.rigs.store.simulated import SimulatedDisk

STORE = bytes(range(16))
DIRECTORY = "/packs"
VALUES = {"i": st.integers(-(1 << 63), (1 << 63) - 1), "t": st.text(max_size=5), "b": st.binary(max_size=5)}
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "segments": [(5, "ü", 1, 2, 0, 3, 4, 5, 6, 0), (6, "", 1, 2, 1, 3, 4, 5, 6, 2)],
    "groups": [(5, "g", 7, b"ranges")],
    "extents": [tuple(range(10))],
    "dropped": [(4,)],
}
TOLD = Told(Mark(3, 4), (50, 6, 7), ((1, 9), (20, 50)), (1, 2), (Adopted(1, 2, 3),), is_whole=True)


def written(disk: SimulatedDisk, number: int, told: Told) -> str:
    """A pack with some rows."""
    writer = pack.PackWriter(disk, DIRECTORY, number, STORE)
    for table, rows in ROWS.items():
        writer.add_rows(table, rows)
    writer.finish(told)
    return f"{DIRECTORY}/{pack.file_name(number)}"


class FooterTests(SynchronousTestCase):
    """What is written, and what is read of it."""

    def setUp(self) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directory(DIRECTORY)

    @settings(max_examples=100, deadline=None, derandomize=True, database=None)
    @given(st.data())
    def test_rows(self, data: st.DataObject) -> None:
        """The rows of any table, of any values."""
        for table, kinds in COLUMNS.items():
            rows = data.draw(st.lists(st.tuples(*[VALUES[kind] for kind in kinds]), min_size=1, max_size=4))
            self.assertEqual(list(decode_rows(table, encode_rows(table, rows), len(rows))), rows)

    def test_identity(self) -> None:
        """All that a footer tells, also where rows take several sections."""
        self.patch(footer, "_ROWS_MAX", 1)
        path = written(self.disk, 7, TOLD)
        file = self.disk.open(path, writable=False)
        found = read_footer(path, file, 7, STORE)
        self.assertEqual((found.told, found.mark.number, found.size), (TOLD, 7, file.size()))
        for table in COLUMNS:
            self.assertEqual(list(read_rows(path, file, found, table)), ROWS.get(table, []))

    def test_every_bit(self) -> None:
        """Any bit that is flipped, and any end that is cut off, is found, and the file is named."""
        path = written(self.disk, 7, TOLD)
        whole = bytes(self.disk.content(path))

        def read() -> None:
            file = self.disk.open(path, writable=False)
            for _ in read_rows(path, file, read_footer(path, file, 7, STORE), *COLUMNS):
                pass

        read()
        for bit in range(8 * pack.FILE_HEADER.size, 8 * len(whole)):
            self.disk.content(path)[bit // 8] ^= 1 << bit % 8
            self.assertEqual(self.assertRaises(StoreCorrupt, read).path, path, f"bit {bit}")
            self.disk.content(path)[bit // 8] ^= 1 << bit % 8
        for end in range(len(whole)):
            self.disk.put(path, whole[:end])
            self.assertRaises(StoreCorrupt, read)
