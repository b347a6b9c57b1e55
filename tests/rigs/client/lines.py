"""A session of lines, the plainest of all."""

from __future__ import annotations

from streamd.client.errors import Refused
from streamd.wire import WireError


class Lines:
    """A codec whose replies are lines, of which none may be empty."""

    def __init__(self) -> None:
        self.error: WireError | None = None
        self._rest = b""

    def receive(self, data: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if b"" in lines:
            self.error = WireError("an empty line")
            del lines[lines.index(b"") :]
        return lines


def joined(lines: list[bytes]) -> bytes:
    if b"no" in lines:
        raise Refused("no")
    if b"what" in lines:
        raise WireError("what")
    return b" ".join(lines)
