"""Messages that were delivered and came back: how often, why, and when they may be delivered again.

A message that is acknowledged at its first delivery costs nothing here. One that came back has an entry until it is
acknowledged, in memory and on disk: entries are kept in attributes of the segment, one for each page of 256 messages.
The group gives out nothing new while too many of them are known, so memory is bounded by what may be outstanding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

from streamd.groups.group import Group
from streamd.groups.rules import group_key, pause_of
from streamd.settings import GroupRule
from streamd.store.errors import StoreError

if TYPE_CHECKING:
    from streamd.store import Store

_PREFIX: Final = b"attempts\0"
_PAGE_RECORDS: Final = 256
_PAGE: Final = Struct(">Q")
_ENTRY: Final = Struct("<BBId")  # place in the page, why, deliveries, when it is due (seconds since 1970)
assert _ENTRY.size * _PAGE_RECORDS <= 4096  # what an attribute holds

# What a reader says of its refusal, at most.
_ERROR_CHARACTERS_MAX: Final = 200


class Why(IntEnum):
    """Why a message came back."""

    REFUSED = 0
    TIMEOUT = 1
    LOST = 2

    @property
    def word(self) -> str:
        """As it stands in a dead letter."""
        return ("refused", "timeout", "connection lost")[self]


class Attempt:
    """What is known of one message that came back."""

    __slots__ = ("deliveries", "due", "error", "held", "why")

    def __init__(self, deliveries: int, due: float, why: Why) -> None:
        self.deliveries = deliveries
        """How often it was delivered."""
        self.due = due
        """When it may be delivered again."""
        self.why = why
        self.error = ""
        """What the reader that refused it said."""
        self.held = True
        """Whether it is neither with a reader nor to be taken: it waits for its time, or becomes a dead letter."""


class Attempts:
    """Those of one group.

    :param rule: the rule in force for the group.
    :param ready: takes messages that may be delivered again.
    :param give_up: takes messages that were delivered as often as the rule allows.
    """

    def __init__(
        self,
        store: Store,
        clock: IReactorTime,
        group: Group,
        rule: Callable[[], GroupRule | None],
        ready: Callable[[list[int]], None],
        give_up: Callable[[list[int]], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._group = group
        self._rule = rule
        self._ready = ready
        self._give_up = give_up
        self._known: dict[int, Attempt] = {}
        self._waiting: list[tuple[float, int]] = []
        """By their time. One whose attempt is not held, or due at another time, is out of date."""
        self._timer: IDelayedCall | None = None
        self._running = False
        if group.name:
            self._load()

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, number: object) -> bool:
        return number in self._known

    def get(self, number: int) -> Attempt | None:
        """What is known of a message; None where it never came back."""
        return self._known.get(number)

    def holds(self, number: int) -> bool:
        """Whether a message is kept from being delivered."""
        attempt = self._known.get(number)
        return attempt is not None and attempt.held

    @property
    def held_records(self) -> int:
        """How many messages are kept from being delivered."""
        return sum(attempt.held for attempt in self._known.values())

    # -- a message's way -----------------------------------------------------------------------------------------------

    def delivered(self, numbers: Iterable[int]) -> None:
        """Count one more delivery of those that came back before."""
        known = self._known
        if not known:
            return
        again = [number for number in numbers if number in known]
        for number in again:
            known[number].deliveries += 1
            known[number].held = False
        self._keep(again)

    def failed(self, numbers: Sequence[int], why: Why, error: str, seconds: float | None) -> Deferred[Any]:
        """These came back. They are ready after `seconds`, or the pause of the rule; fires when that is on disk."""
        rule, now = self._rule(), self._clock.seconds()
        ready: list[int] = []
        given_up: list[int] = []
        for number in numbers:
            attempt = self._known.get(number)
            if attempt is None:
                attempt = self._known[number] = Attempt(1, 0.0, why)
            attempt.why, attempt.error = why, error[:_ERROR_CHARACTERS_MAX]
            pause = pause_of(rule, attempt.deliveries) if seconds is None else seconds
            attempt.due, attempt.held = now + pause, True
            if _is_last(rule, attempt):
                given_up.append(number)
            elif pause > 0:
                heappush(self._waiting, (attempt.due, number))
            else:
                ready.append(number)
        kept = self._keep(numbers)
        self._hand_on(ready, given_up)
        return kept

    def postpone(self, numbers: Iterable[int], seconds: float) -> None:
        """Look at these again later: they could not be given up now."""
        due = self._clock.seconds() + seconds
        for number in numbers:
            attempt = self._known.get(number)
            if attempt is not None and attempt.held:
                attempt.due = due
                heappush(self._waiting, (due, number))
        self._schedule()

    def forget(self, numbers: Iterable[int]) -> None:
        """These are acknowledged."""
        if self._known:
            self._keep([number for number in numbers if self._known.pop(number, None) is not None])

    def clear(self) -> None:
        """Forget all of them: the group begins anew elsewhere."""
        self.forget(list(self._known))
        self._waiting.clear()

    def _hand_on(self, ready: list[int], given_up: list[int]) -> None:
        for number in ready:
            self._known[number].held = False
        if ready:
            self._ready(sorted(ready))
        if given_up:
            self._give_up(given_up)
        self._schedule()

    # -- time ----------------------------------------------------------------------------------------------------------

    def run(self, running: bool) -> None:
        """Watch the time, or not: there is nobody to deliver to."""
        self._running = running
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if running:
            # At once: whoever joins and does not wait has to find what is due already.
            self._look()

    def _schedule(self) -> None:
        if not self._running or not self._waiting:
            return
        seconds = max(self._waiting[0][0] - self._clock.seconds(), 0.0)
        if self._timer is None:
            self._timer = self._clock.callLater(seconds, self._look)
        elif self._timer.getTime() > self._waiting[0][0]:
            self._timer.reset(seconds)

    def _look(self) -> None:
        """Some messages have waited long enough."""
        self._timer = None
        rule, now = self._rule(), self._clock.seconds()
        ready: list[int] = []
        given_up: list[int] = []
        while self._waiting and self._waiting[0][0] <= now:
            due, number = heappop(self._waiting)
            attempt = self._known.get(number)
            if attempt is None or not attempt.held or attempt.due != due:
                continue
            if number < self._group.segment.first_number:
                self.forget([number])
            else:
                (given_up if _is_last(rule, attempt) else ready).append(number)
        self._hand_on(ready, given_up)

    # -- on disk -------------------------------------------------------------------------------------------------------

    def _keep(self, numbers: Iterable[int]) -> Deferred[Any]:
        """Write the pages of these. Fires when they are on disk, or can't be: then a restart counts from less."""
        pages = {number // _PAGE_RECORDS for number in numbers} if self._group.name else ()
        written = []
        for page in sorted(pages):
            try:
                stored = self._store.set_attribute(self._group.segment, self._key(page), self._page(page))
            except StoreError:
                continue
            written.append(stored.addErrback(_unwritten))
        return gatherResults(written)

    def _key(self, page: int) -> bytes:
        return group_key(_PREFIX, self._group.name) + _PAGE.pack(page)

    def _page(self, page: int) -> bytes | None:
        first = page * _PAGE_RECORDS
        entries = [
            _ENTRY.pack(number - first, attempt.why, min(attempt.deliveries, 0xFFFFFFFF), attempt.due)
            for number in range(first, first + _PAGE_RECORDS)
            if (attempt := self._known.get(number)) is not None
        ]
        return b"".join(entries) or None

    def _load(self) -> None:
        """Know what an earlier process knew, but for what was acknowledged or dropped since."""
        prefix = group_key(_PREFIX, self._group.name)
        acknowledged, segment = self._group.acknowledged, self._group.segment
        gone: list[int] = []
        for key, page in (segment.attributes or {}).items():
            if not key.startswith(prefix):
                continue
            first = _PAGE.unpack(key[len(prefix) :])[0] * _PAGE_RECORDS
            for place, why, deliveries, due in _ENTRY.iter_unpack(page):
                number = first + place
                if number < segment.first_number or (acknowledged is not None and number in acknowledged):
                    gone.append(number)
                    continue
                self._known[number] = Attempt(deliveries, due, Why(why))
                heappush(self._waiting, (due, number))
        self._keep(gone)
        self._group.hold(self._known)


def stored_attempts(attributes: dict[bytes, bytes] | None, group: str) -> dict[bytes, int]:
    """The keys of what is stored of a group's attempts, and how many messages each is about."""
    prefix = group_key(_PREFIX, group)
    return {key: len(page) // _ENTRY.size for key, page in (attributes or {}).items() if key.startswith(prefix)}


def _is_last(rule: GroupRule | None, attempt: Attempt) -> bool:
    return rule is not None and 0 < rule.deliveries_max <= attempt.deliveries


def _unwritten(failure: Failure) -> None:
    failure.trap(StoreError)
