"""Which commits the reactor's thread writes by itself, in place of the writer thread.

To hand a commit to another thread and to hear of it again costs the reactor about as much as a quick disk takes for a
sync, and while both threads want the interpreter it costs more. So where syncs are short, and a commit is small and has
all that was asked for so far, nobody gains by the hand-over: whoever could be served meanwhile waits for less than it
would take.

A disk is not always quick. After the first sync that was not, commits go to the writer thread again, for a number of
them that doubles each time; then one is tried in place. A slow disk costs one such trial in thousands of commits.
"""

from __future__ import annotations

from typing import Final

BYTES_MAX: Final = 128 << 10
"""Larger commits are always handed over: while they are written, what follows can be parsed."""

# Commits for which the writer thread has its turn after one that was slow: at first, and at most.
_AWAY: Final = 16
_AWAY_MAX: Final = 8192


class InPlace:
    """Whether to write the next small commit in place, from how long such commits took."""

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._away = _AWAY
        self._left = 0
        self._short = 0

    @property
    def is_on(self) -> bool:
        """Whether the next one may be written in place."""
        return not self._left

    def took(self, seconds: float) -> None:
        """A commit that was written in place took so long."""
        if seconds > self._seconds_max:
            self._left = self._away
            self._away = min(self._away * 2, _AWAY_MAX)
            self._short = 0
        else:
            self._short += 1
            if self._short >= self._away:
                # It was quick for as long as it would be left alone: so short a trouble is forgotten.
                self._away = _AWAY
                self._short = 0

    def handed_over(self) -> None:
        """A commit went to the writer thread."""
        if self._left:
            self._left -= 1
