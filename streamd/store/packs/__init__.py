"""Packs: closed journal files, folded into immutable files that are sorted by segment.

Promises: a pack is synced before the catalog names it, and the catalog is synced before a journal file goes; a crash
anywhere leaves either the old files or the new ones in force. All of it happens in a process of its own.

For others: `compaction` (the daemon's side of that process), `compactor` (the process), `fold` (journal files to a
pack, packs to fewer packs), `pack` (the bytes), `catalog` (what segments, levels, groups and packs there are),
`readonly` (the same for who must not write), `rowsum` (a checksum for each row).
"""
