"""Pravega's append blocks: segments of events, written exactly once and read from an offset on.

`session`   requests and replies of one connection.
`backlog`   what a writer keeps until it is acknowledged.
`writer`    appends events over lost connections.
`commands`  makes segments, reads their events, and hands out writers.
"""

from streamd.client.pravega.session import Truncated

__all__ = ["Truncated"]
