"""A catalog that is made of packs alone, to be held against others."""

from __future__ import annotations

from streamd.store.directory import read_identity
from streamd.store.packs.catalog import STATE, Catalog
from streamd.store.packs.inforce import PackSet
from streamd.store.packs.making import make_catalog
from streamd.store.packs.readonly import Memory
from tests.rigs.store.inline import DIRECTORY, PACKS
from tests.rigs.store.simulated import SimulatedDisk


def made_again(disk: SimulatedDisk) -> Catalog:
    """A catalog, on no disk, of the packs that are there."""
    store = read_identity(disk, DIRECTORY)
    catalog = Catalog(Memory(), DIRECTORY, store, writable=True)
    make_catalog(catalog, PackSet(disk, PACKS, store).read())
    return catalog


def rows(catalog: Catalog) -> dict[str, list[tuple[object, ...]]]:
    """All that a catalog says."""
    found: dict[str, list[tuple[object, ...]]] = {table: sorted(catalog.state_rows(table)) for table in STATE}
    found["extents"] = sorted(catalog.all_extents())
    found["packs"] = sorted(catalog.packs())
    found["mark"] = [catalog.mark]
    found["covered"] = [catalog.covered[::2]]  # files without entries are folded without a pack
    return found
