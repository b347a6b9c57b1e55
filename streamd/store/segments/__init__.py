"""Segments in memory: what is committed of them, and what pending commits claim.

Promises: only what is on disk changes the committed view, in commit order, and replaying the journal gives the same
again; when a commit fails the claims fall back to what is committed.

For others: `segment` (one of them), `registry` (all of them, and what each kind of entry does to them), `index` (where
records are that are not in packs yet), `broadcasts` (one segment that all numbered ones follow), `ranges` (what a
reader group has acknowledged).
"""
