"""Packs: closed journal files, folded into immutable files that are sorted by segment.

Promises: a pack is synced, with a footer that tells what it changed, before it has its name, and is in force from then
on; nothing is removed before that; a crash anywhere leaves either the old files or the new ones in force. All of it
happens in a process of its own.

For others: `compaction` (the daemon's side of that process), `compactor` (the process), `fold` (journal files to a
pack, packs to fewer packs), `pack` and `footer` (the bytes), `inforce` (which packs count), `opening` (the catalog,
made to fit them), `catalog` (an index of what footers say), `readonly` (the same for who must not write).
"""
