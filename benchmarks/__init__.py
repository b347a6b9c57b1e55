"""Side-by-side runs: streamd beside the least possible program (`limit.c`) and beside its peers.

`cases` says what is measured, `servers` how each server is started, `load` drives them, `report` prints the table.
Run with ``python -m benchmarks``; see ``benchmarks/README.md``.
"""
