"""A turn in which many are served: what can be done once for all of them is done at its end.

While it lasts a commit is gathered and not given to the writer, and who has something to send says so and waits. At the
end the commit goes first, so that the disk works while they send.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Due(Protocol):
    """Somebody with something left to do in this turn."""

    def take_turn(self) -> None:
        """Do it now. Must not raise."""


class Turn:
    """The turn that lasts, if one does."""

    __slots__ = ("_fly", "due", "lasts")

    def __init__(self, fly: Callable[[], None]) -> None:
        self._fly = fly
        self.lasts = False
        self.due: list[Due] = []
        """Who is called at the end. While a turn lasts they add themselves, once each."""

    def begin(self) -> None:
        """From now on things are put off."""
        self.lasts = True

    def end(self) -> None:
        """Write what was gathered, and let everybody do what they put off."""
        try:
            self._fly()
            # It grows while they are called.
            for each in self.due:
                each.take_turn()
        finally:
            self.due.clear()
            self.lasts = False
        self._fly()
