"""What a damaged store knows of what is in packs: its packs tell it, or where one of them can't, the catalog."""

from __future__ import annotations

import os
from typing import NamedTuple

from streamd.store.disk import IDisk
from streamd.store.errors import StoreCorrupt, StoreUnusable
from streamd.store.packs.catalog import FILE_NAME, STATE, Catalog
from streamd.store.packs.database import FORMAT_2, UNREADABLE
from streamd.store.packs.inforce import PackSet
from streamd.store.packs.making import make_catalog
from streamd.store.packs.readonly import Memory
from streamd.store.upkeep.repair.kept import Step


class Known(NamedTuple):
    """A catalog in memory, and what had to be given up for it."""

    catalog: Catalog
    packs: PackSet
    steps: list[Step]


def find_known(
    disk: IDisk, directory: str, store: bytes, packs: str, format: int, begin: int, wounded: set[int]
) -> Known:
    """All that is known of what is in packs. StoreUnusable where nothing is left to know it from.

    `begin` is where the journal begins: what is before that must be known from elsewhere. `wounded` packs are damaged.
    """
    left_out: set[int] = set()
    found = PackSet(disk, packs, store).look()
    if format <= FORMAT_2 and not found.footers:
        catalog = copy_of_catalog(disk, directory, store)
        if catalog is None:
            raise StoreUnusable(
                f"{os.path.join(directory, FILE_NAME)}: damaged. This store is of an earlier format, in which nothing "
                "else tells what is in its packs: this can't be repaired. Restore a backup"
            )
        return Known(catalog, found, [])
    for number in sorted(wounded | found.damaged.keys(), reverse=True):
        # Where the files are still there that it was made of, nothing is lost with it.
        others = PackSet(disk, packs, store).look({*left_out, number})
        if _is_whole(others, begin):
            left_out.add(number)
            found = others
    steps = [
        Step(found.path(each), "it is damaged", "it is taken out: what it was made of is still there", "")
        for each in sorted(left_out)
    ]
    for number in found.footers:
        for _ in found.damaged_rows(number):
            pass
    if not found.damaged and _is_whole(found, begin):
        return Known(made_catalog(directory, store, found), found, steps)
    catalog = copy_of_catalog(disk, directory, store)
    if catalog is not None and catalog.mark.number >= max([0, *found.footers, *found.damaged]):
        for number, error in sorted(found.damaged.items()):
            steps.append(Step(found.path(number), error.reason, "the catalog knows what is in it", ""))
        return Known(catalog, found, steps)
    return _without_some(directory, store, found, steps)


def _is_whole(packs: PackSet, begin: int) -> bool:
    """Whether packs, and the journal that begins there, lack nothing."""
    try:
        packs.check()
    except StoreCorrupt:
        return False
    return begin <= packs.covered[0]


def made_catalog(directory: str, store: bytes, packs: PackSet) -> Catalog:
    """A catalog of packs, in memory."""
    catalog = Catalog(Memory(), directory, store, writable=True)
    make_catalog(catalog, packs)
    return catalog


def copy_of_catalog(disk: IDisk, directory: str, store: bytes) -> Catalog | None:
    """The catalog as it is in the file, in memory; None where anything of it is damaged."""
    try:
        catalog = Catalog(disk, directory, store, writable=False, immutable=True)
    except StoreUnusable:
        return None
    try:
        if catalog.check():
            return None
        return copy_of(catalog, directory, store)
    except (StoreUnusable, *UNREADABLE):
        return None
    finally:
        catalog.close()


def copy_of(catalog: Catalog, directory: str, store: bytes) -> Catalog:
    """All rows of a catalog, each checked and none missing, in another one in memory."""
    copy = Catalog(Memory(), directory, store, writable=True)
    for _ in catalog.segments():
        pass  # no row is missing
    with copy:
        for table in STATE:
            copy.add_rows(table, catalog.state_rows(table))
        copy.add_extents(catalog.all_extents())
        copy.add_rows("packs", catalog.packs())
        copy.set_covered(*catalog.covered)
        copy.set_mark(catalog.mark._replace(number=catalog.next_pack - 1))
    return copy


def _without_some(directory: str, store: bytes, packs: PackSet, steps: list[Step]) -> Known:
    """Packs and the catalog are damaged: what only a damaged footer told is lost."""
    for number, error in sorted(packs.damaged.items()):
        lost = "what it says of segments, and the records in it"
        steps.append(Step(packs.path(number), error.reason, "it is taken out, and the others count", lost))
        packs.footers.pop(number, None)
        packs.adopted.pop(number, None)
    return Known(made_catalog(directory, store, packs), packs, steps)
