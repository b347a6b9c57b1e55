"""A store as an earlier format had it: packs without footers, and a catalog that alone knows what is in them."""

from __future__ import annotations

from struct import pack as packed

from crc32c import crc32c

from streamd.store.directory import read_identity
from streamd.store.packs import pack
from streamd.store.packs.catalog import FILE_NAME
from streamd.store.packs.database import meta_sum, summed
from streamd.store.packs.inforce import PackSet
from tests.rigs.store.inline import DIRECTORY, PACKS
from tests.rigs.store.making import made_again
from tests.rigs.store.simulated import SimulatedDisk


def make_former(disk: SimulatedDisk) -> None:
    """Make a store that nobody has open one of format 2, with all that it holds."""
    store = read_identity(disk, DIRECTORY)
    packs = PackSet(disk, PACKS, store).read()
    assert not packs.adopted
    catalog = made_again(disk)
    for name in disk.list_directory(PACKS):
        if (number := int(name.split(".")[0])) not in packs.footers or not packs.footers[number].blocks:
            disk.unlink(f"{PACKS}/{name}")
    disk.sync_directory(PACKS)
    for number, footer in packs.footers.items():
        if not footer.blocks:
            continue
        content = disk.content(packs.path(number))[: footer.blocks_end]
        content[8:12] = packed("<I", pack.WITHOUT_FOOTER)
        content[60:64] = packed("<I", crc32c(bytes(content[:60])))
        disk.put(packs.path(number), bytes(content))
    database = catalog._db
    database.execute("BEGIN")
    rows = [(each.number, packs.footers[each.number].blocks_end, *each[2:]) for each in catalog.packs() if each.blocks]
    total = catalog._get("total") - sum(crc for (crc,) in database.execute("SELECT crc FROM packs").fetchall())
    database.execute("DELETE FROM packs")
    for row in [summed("packs", row) for row in rows]:
        database.execute("INSERT INTO packs VALUES (?, ?, ?, ?, ?)", row)
        total += row[-1]
    catalog._set("total", total % (1 << 63))
    catalog._set("format", 2)
    database.execute("DELETE FROM meta WHERE key = 'footer'")
    catalog._set("crc", meta_sum(catalog._meta()))
    database.execute("COMMIT")
    for name in [each for each in disk.list_directory(DIRECTORY) if each.startswith(FILE_NAME)]:
        disk.unlink(f"{DIRECTORY}/{name}")
    disk.sync_directory(DIRECTORY)
    disk.put(f"{DIRECTORY}/{FILE_NAME}", database.serialize())
    identity = f"{DIRECTORY}/identity"
    disk.put(identity, bytes(disk.content(identity)).replace(b'"format": 3', b'"format": 2'))
