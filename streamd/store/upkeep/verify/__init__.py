"""``streamctl verify``: every file, every checksum, every cross-reference.

`check` is the whole of it, `packs` the part about packs.
"""
