"""The journal: every change of every segment, in commit order, in files that are only ever appended to.

Promises: a frame is there whole or not at all; file N is synced before N + 1 exists; what `committed` names as synced
is never cut, and damage below it is told from a torn tail above it.

For others: `frame` (what an entry is, as bytes), `writer` (writes frames and rolls files), `scan` (reads frames back,
and knows torn from damaged), `replay` (lets them take effect on a table of segments), `committed` (how far the journal
is synced, for readers outside of the daemon).
"""
