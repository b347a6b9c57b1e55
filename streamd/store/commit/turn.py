"""A turn in which many are served: what can be done once for all of them is done at its end.

While it lasts a commit is gathered and not given to the writer, and who has something to send says so and waits. At the
end the commit goes first, so that the disk works while they send.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Gathered(Protocol):
    """What came together in a turn, to be written as one."""

    def gather(self) -> None:
        """Put it into the commit. Must not raise."""


class Due(Protocol):
    """Somebody with something left to do in this turn."""

    def take_turn(self) -> None:
        """Do it now. Must not raise."""


class Turn:
    """The turn that lasts, if one does."""

    __slots__ = ("_fly", "due", "gathered", "is_whole", "lasts")

    def __init__(self, fly: Callable[[], None]) -> None:
        self._fly = fly
        self.lasts = False
        self.is_whole = True
        """Whether this turn has all that was there to be served. Who leaves something for the next one says so."""
        self.gathered: list[Gathered] = []
        """What is to be put into the commit at the end."""
        self.due: list[Due] = []
        """Who is called at the end. While a turn lasts they add themselves, once each."""

    def begin(self) -> None:
        """From now on things are put off."""
        self.lasts = True
        self.is_whole = True

    def end(self) -> None:
        """Write what was gathered, and let everybody do what they put off."""
        try:
            gathered, self.gathered = self.gathered, []
            for several in gathered:
                several.gather()
            self._fly()
            while self.due:
                due, self.due = self.due, []
                for each in due:
                    each.take_turn()
                # What they asked for meanwhile, or what was not to be written before they had their answers.
                self._fly()
            # What was asked for by who was not due, when a commit took effect just now.
            self._fly()
        finally:
            self.lasts = False
