"""A store whose journal files are folded into packs."""

from __future__ import annotations

from streamd.settings import StoreSettings
from streamd.store import Segment
from streamd.store.packs.catalog import Row
from streamd.store.packs.pack import file_name
from tests.rigs.store.case import StoreCase
from tests.rigs.store.inline import PACKS, Compactor


class FoldCase(StoreCase):
    """A store with a compactor, whose journal files end when a test says so."""

    settings = StoreSettings(journal_file_bytes=1 << 20, reserve_bytes=1 << 16, open_files_max=4)

    def open(self) -> None:
        super().open()
        self.compactor = Compactor(self.disk, self.store)

    def fold(self) -> list[Row]:
        """Close the journal file, fold it, and give the new rows of the catalog."""
        self.reopen()
        before = set(self.rows())
        self.compactor.fold()
        return [row for row in self.rows() if row not in before]

    def rows(self) -> list[Row]:
        """All extents of the catalog."""
        return list(self.compactor.catalog.extents_of_packs(self.compactor.packs()))

    def again(self, segment: Segment) -> Segment:
        """The same segment of the store as it is open now."""
        return self.store.find(segment.name)

    def pack_files(self) -> list[str]:
        """The files in the folder of packs."""
        return self.disk.list_directory(PACKS)

    def pack_bytes(self) -> int:
        """How much the packs take on disk."""
        return sum(len(self.disk.content(f"{PACKS}/{name}")) for name in self.pack_files())

    def check_pack_files(self) -> None:
        """The files are those that the catalog knows."""
        self.assertEqual(self.pack_files(), [file_name(number) for number in self.compactor.packs()])
