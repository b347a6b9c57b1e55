"""Records as JSON, for exports and for what a repair keeps."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from json import JSONEncoder
from typing import Final

from streamd.batch import Batch

_quoted: Final = JSONEncoder(ensure_ascii=False).encode


def when(timestamp: int) -> str:
    """A timestamp of the store (microseconds since 1970) as a datetime in UTC."""
    # Not by a float: that has no room for all microseconds.
    seconds, microseconds = divmod(timestamp, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=microseconds).isoformat(timespec="microseconds")


def json_lines(topic: str, number: int, timestamp: int, tag: int, batch: Batch) -> bytes:
    """One JSON object for each record: topic, offset, timestamp, and the value as text or else in base64.

    Offsets count records, as they do for SESP and in Spark.
    """
    # What is the same in all of them is put together once: one object after the other took six times as long.
    begin = f'{{"topic": {_quoted(topic)}, "offset": '
    shared = f', "timestamp": "{when(timestamp)}", ' + (f'"tag": {tag}, ' if tag else "")
    lines = []
    for at, record in enumerate(batch.records(), number):
        data = bytes(record)
        try:
            value = f'"value": {_quoted(data.decode("utf-8"))}'
        except UnicodeDecodeError:
            value = f'"value_base64": "{b64encode(data).decode()}"'
        lines.append(f"{begin}{at}{shared}{value}}}\n")
    return "".join(lines).encode()
