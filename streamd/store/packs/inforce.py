"""Which packs are in force: their footers alone tell, and there is nothing else that could say otherwise.

The newest pack that covers a sequence number is the one that counts. So a pack is spare as soon as a later one covers
what it covers, and stays so whichever of the files that were removed come back after a power cut.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator

from streamd.store.disk import IDisk
from streamd.store.errors import StoreCorrupt, StoreUnusable
from streamd.store.journal.replay import read_bytes
from streamd.store.journal.writer import TEMPORARY_SUFFIX
from streamd.store.packs import pack
from streamd.store.packs.footer import COLUMNS, Adopted, Footer, Mark, PackRows, read_footer

Ranges = tuple[tuple[int, int], ...]


class PackSet:
    """The packs of a store, as their files tell. It is kept up to date by the one who writes packs."""

    def __init__(self, disk: IDisk, directory: str, store: bytes) -> None:
        self._disk = disk
        self._directory = directory
        self._store = store
        self.footers: dict[int, Footer] = {}
        """Of those in force."""
        self.adopted: dict[int, Adopted] = {}
        """Packs in force whose footers do not count, or that have none: a checkpoint has their extents."""
        self.without: list[int] = []
        """All packs without a footer that there are."""
        self.spare: list[int] = []
        """Packs that nobody needs."""
        self.damaged: dict[int, StoreCorrupt] = {}
        """Packs that do not tell what they are, and may be needed."""
        self._numbers: list[int] = []
        self._covered: Ranges = ()

    def path(self, number: int) -> str:
        """Where a pack is."""
        return os.path.join(self._directory, pack.file_name(number))

    def read(self) -> PackSet:
        """Find out which packs are in force. StoreCorrupt where one is damaged, or missing."""
        for name in self._disk.list_directory(self._directory):
            if not pack.FILE_NAME.fullmatch(name) and not name.endswith(TEMPORARY_SUFFIX):
                path = os.path.join(self._directory, name)
                raise StoreUnusable(f"{path}: this file is not part of the store. Move it elsewhere")
        self.look()
        for error in self.damaged.values():
            raise error
        self.check()
        return self

    def check(self) -> None:
        """StoreCorrupt where a pack is missing."""
        for number in sorted(self.adopted.keys() - set(self._numbers)):
            raise StoreCorrupt(self.path(number), 0, "the file is missing")
        covered, _, _ = self.covered
        if self.footers and covered > 1 and self.holes:
            raise StoreCorrupt(self._directory, 0, f"a pack is missing: none covers sequence {self.holes[0][0]}")

    def look(self, left_out: Collection[int] = ()) -> PackSet:
        """The same, as far as can be told where some are damaged or missing. `left_out`: as if these were not there."""
        found: dict[int, Footer] = {}
        names = map(pack.FILE_NAME.fullmatch, self._disk.list_directory(self._directory))
        self._numbers = [number for name in names if name and (number := int(name[1])) not in left_out]
        for number in self._numbers:
            try:
                footer = self.read_one(number)
            except StoreCorrupt as error:
                self.damaged[number] = error
                continue
            if footer is None:
                self.without.append(number)
            else:
                found[number] = footer
        self._choose(found)
        return self

    @property
    def holes(self) -> Ranges:
        """The sequence numbers that no pack covers, below those that are folded."""
        ends = [1, *[each for range in self._covered for each in range], self.covered[0]]
        return tuple([(first, end) for first, end in zip(ends[::2], ends[1::2], strict=True) if first < end])

    def read_one(self, number: int) -> Footer | None:
        """The footer of a pack; None where it has none. StoreCorrupt, also for what is wrong with its header."""
        path = self.path(number)
        file = self._disk.open(path, writable=False)
        try:
            head = read_bytes(path, file, 0, pack.FILE_HEADER.size)
            wrong = pack.check_file_header(head, self._store, number)
            if wrong is not None:
                raise StoreCorrupt(path, 0, wrong)
            return read_footer(path, file, number, self._store) if pack.has_footer(head) else None
        finally:
            file.close()

    def _choose(self, found: dict[int, Footer]) -> None:
        """Take the packs that are in force; the others are spare."""
        whole = max([number for number, footer in found.items() if footer.told.is_whole], default=0)
        for number in sorted(found, reverse=True):
            told = found[number].told
            if (told.is_whole and number != whole) or overlap(self._covered, told.ranges):
                continue
            self._covered = united([*self._covered, *told.ranges])
            self.footers[number] = found[number]
        if whole:
            self.adopted = {each.number: each for each in found[whole].told.adopted}
            if not self.holes:
                # All that counts is told by others: nobody needs to know what these said.
                for number in [each for each in self.damaged if each < whole and each not in self.adopted]:
                    del self.damaged[number]
        known = self.footers.keys() | self.damaged.keys() | (self.adopted.keys() if found else set(self.without))
        self.spare = sorted(set(self._numbers) - known)

    @property
    def mark(self) -> Mark:
        """That of the newest pack: what a catalog must have that is made of these."""
        return self.footers[max(self.footers)].mark if self.footers else Mark()

    @property
    def covered(self) -> tuple[int, int, int]:
        """The sequence number that comes next, the last journal file that is folded in, and the last timestamp."""
        return self.footers[max(self.footers)].told.covered if self.footers else (1, 0, 0)

    @property
    def whole(self) -> int:
        """The checkpoint: what older packs say of the state of segments does not count. 0 where there is none."""
        return max([number for number, footer in self.footers.items() if footer.told.is_whole], default=0)

    def rows(self, number: int) -> PackRows:
        """The rows in the footer of one that is in force."""
        return PackRows(self._disk, self.path(number), self.footers[number])

    def damaged_rows(self, number: int) -> Iterator[StoreCorrupt]:
        """What is wrong with the rows of a footer, which is noted too."""
        for table in COLUMNS:
            try:
                for _ in self.rows(number).rows(table):
                    pass
            except StoreCorrupt as error:
                self.damaged[number] = error
                yield error

    def ranges(self, numbers: Iterable[int]) -> Ranges:
        """What these packs cover together."""
        footers = [self.footers[number] for number in numbers if number in self.footers]
        return united([each for footer in footers for each in footer.told.ranges])

    def add(self, footer: Footer) -> None:
        """A pack has been written: it is in force, and those are not that it replaces."""
        for number in footer.told.replaces:
            self.footers.pop(number, None)
            self.adopted.pop(number, None)
        for each in footer.told.adopted:
            self.adopted[each.number] = each
        self.footers[footer.mark.number] = footer


def united(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same in as few ranges as can be, ascending."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return tuple(found)


def overlap(some: Ranges, others: Ranges) -> bool:
    """Whether any number is in both."""
    return any(max(first, other) < min(end, other_end) for first, end in some for other, other_end in others)
