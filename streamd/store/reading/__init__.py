"""Reading committed records, from the journal or from packs, unseen by the caller.

Promises: nobody is shown what a power cut could take back, nor bytes whose checksum is wrong; the reactor never waits
for the disk; a file that is being read stays until its reader lets go.

For others: `reading` and `reader` (for the daemon), `outside` (for other processes, beside a daemon or without one).
`plan` chooses extents, `packed` asks the catalog for those in packs, `files` keeps files open, `follow` keeps up with a
journal that somebody else writes.
"""
