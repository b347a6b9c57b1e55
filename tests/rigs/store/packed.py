"""Pieces of packs."""

from __future__ import annotations

from streamd.batch import Batch
from streamd.store.records.blocks import Piece


def piece(tag: int, timestamp: int, *records: bytes) -> Piece:
    return Piece(tag, timestamp, Batch.of(records))
