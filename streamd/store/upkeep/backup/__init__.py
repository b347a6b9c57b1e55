"""``streamctl backup`` and ``restore``: snapshots of which each pack is copied once.

`run` makes a snapshot, `restore` makes a store of one, `files` is what both do with files.
"""
