"""What can go wrong for a client. An argument that a protocol has no room for is a ValueError, before it is sent."""

from __future__ import annotations


class ClientError(Exception):
    """Something that was asked of the daemon did not come about."""


class Refused(ClientError):
    """The daemon said no; the connection goes on. `reason` is its word for it, `count` how many requests it refused."""

    def __init__(self, reason: str, text: str | None = None, count: int = 1) -> None:
        super().__init__(text or reason)
        self.reason = reason
        self.count = count


class ConnectionLost(ClientError):
    """There is no connection, or there is none any more. What was not answered may have been done or not."""


class Timeout(ConnectionLost):
    """The daemon was silent for too long while something was awaited of it. The connection is given up."""


class ProtocolBroken(ConnectionLost):
    """What came is not what this protocol's daemon says. The connection is given up."""
