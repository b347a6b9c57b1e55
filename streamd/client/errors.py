"""Errors of clients. An argument that a protocol has no room for is a ValueError or TypeError, before it is sent."""

from __future__ import annotations


class ClientError(Exception):
    """A command failed. All errors of clients are of this class."""


class Refused(ClientError):
    """The daemon refused a command; the connection goes on.

    `reason` is the daemon's word for it, `count` how many requests it refused.
    """

    def __init__(self, reason: str, text: str | None = None, count: int = 1) -> None:
        super().__init__(text or reason)
        self.reason = reason
        self.count = count


class ConnectionLost(ClientError):
    """There is no connection, or it is lost. A command that was not answered may have been done or not."""


class Timeout(ConnectionLost):
    """The daemon was silent for too long while a command waited for it. The connection is given up."""


class ProtocolBroken(ConnectionLost):
    """The peer sent what no daemon of this protocol sends. The connection is given up."""
