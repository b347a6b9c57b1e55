"""How much a connection may have on its way to the disk: what the disk takes in the time that a commit should last.

Whoever writes a little waits for the commit that is being written, and for the one that has its own. With much in
them, on a disk that is slow or busy with something else, that would be long: so those who write much are slowed down to
what the disk does, and the others do not notice.
"""

from __future__ import annotations

from typing import Final

# Less than this is no use: the calls cost more than the bytes.
_PACE_BYTES_LEAST: Final = 256 << 10

# Far above what the limits of a connection allow: as long as nothing is known, only these count.
_PACE_BYTES_MAX: Final = 1 << 30

# Commits with less in them say more of the disk's latency than of its speed.
_TELLING_BYTES: Final = 128 << 10

# How much of a new measurement goes into the estimate.
_WEIGHT: Final = 0.2


class Pace:
    """An estimate of the disk's speed, from the commits that it takes."""

    def __init__(self, commit_seconds: float) -> None:
        self._commit_seconds = commit_seconds
        self._seconds_per_byte = 0.0
        self.bytes = _PACE_BYTES_MAX
        """What the disk takes in the time of a commit."""

    def took(self, commit_bytes: int, seconds: float) -> None:
        """A commit with so many bytes took so long."""
        if commit_bytes < _TELLING_BYTES:
            return
        new = seconds / commit_bytes
        old = self._seconds_per_byte or new
        self._seconds_per_byte = old + (new - old) * _WEIGHT
        wanted = self._commit_seconds / max(self._seconds_per_byte, 1e-12)
        self.bytes = int(min(max(wanted, _PACE_BYTES_LEAST), _PACE_BYTES_MAX))
