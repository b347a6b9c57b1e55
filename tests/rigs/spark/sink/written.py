"""What is in a topic, as the daemon tells it."""

from __future__ import annotations

from streamd.client import StorageClient


def written(server: str, topic: str) -> list[bytes]:
    """All records of a topic, in their order."""
    with StorageClient(server) as client:
        runs = client.read(client.segment(topic).id, 0)
        return [bytes(record) for run in runs for record in run.batch.records()]
