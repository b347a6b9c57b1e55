"""Records as JSON says them: what is exported, and what a repair keeps."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from streamd.batch import Batch


def when(timestamp: int) -> str:
    """A time of the store (microseconds since 1970), in UTC."""
    # Not by a float: that has no room for all microseconds.
    seconds, microseconds = divmod(timestamp, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=microseconds).isoformat(timespec="microseconds")


def json_lines(topic: str, number: int, timestamp: int, tag: int, batch: Batch) -> bytes:
    """An object a line: topic, offset, timestamp, and the value as text or, where it is none, in base64."""
    found = json_objects(topic, number, timestamp, tag, batch)
    return "".join([json.dumps(each, ensure_ascii=False) + "\n" for each in found]).encode()


def json_objects(topic: str, number: int, timestamp: int, tag: int, batch: Batch) -> Iterator[dict[str, Any]]:
    """The records of a batch, one by one. Offsets count messages, as they do for SESP and in Spark."""
    shared = {"timestamp": when(timestamp), **({"tag": tag} if tag else {})}
    for at, record in enumerate(batch.records(), number):
        data = bytes(record)
        try:
            value = {"value": data.decode("utf-8")}
        except UnicodeDecodeError:
            value = {"value_base64": b64encode(data).decode()}
        yield {"topic": topic, "offset": at, **shared, **value}
