"""What records look like on disk, whichever file holds them: shared by journal, packs and reading.

`offsets` says how much of a segment's offsets a record takes, `extent` names records that stand together in a file,
`blocks` is how a pack keeps them, `fetch` turns extents into records and never gives out bytes whose checksum is wrong.
Nothing here knows a segment, a catalog or a thread.
"""
