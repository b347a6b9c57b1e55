"""How far a streaming query is behind: what its progress says it has read, beside what the topics hold now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from streamd.spark.daemon import open_storage
from streamd.spark.read.positions import BadCheckpoint, decode


def behind(progress: Mapping[str, Any], path: str | None, server: str | None) -> dict[str, int]:
    """The messages of each topic that a query has not read yet, by its last progress. Other sources are left out."""
    ends: dict[str, int] = {}
    for source in progress["sources"]:
        offset = source["endOffset"]
        try:
            positions = decode(json.loads(offset) if isinstance(offset, str) else offset or {})
        except (BadCheckpoint, ValueError, TypeError, AttributeError):
            continue
        for topic, position in positions.items():
            ends[topic] = min(ends.get(topic, position.next), position.next)
    known = open_storage(path, server).named(sorted(ends)) if ends else []
    return {info.name: max(0, info.number - max(ends[info.name], info.first_number)) for info in known}


def as_metrics(lags: Mapping[str, int]) -> dict[str, float]:
    """Average, smallest and largest lag of all topics, under the names that Spark's Kafka source has for them."""
    counts = list(lags.values()) or [0]
    return {
        "avgOffsetsBehindLatest": sum(counts) / len(counts),
        "minOffsetsBehindLatest": min(counts),
        "maxOffsetsBehindLatest": max(counts),
    }
