"""The rules of access, and what they let a peer do.

Rules add up: a peer may do what any rule that fits it allows, and their order does not matter. No rule takes away what
another one gives. Without any rule everybody may do everything, so it is the listeners that have to be out of reach.

A limit belongs to what its rule allows: a write is refused for a topic's size only where every rule that allows the
write says so. Rates are different, they count for all that a peer does: it has to keep each one that fits it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from streamd.access.pace import Pace
from streamd.access.who import Peer, parse_who
from streamd.patterns import Fits, any_matcher
from streamd.settings import RIGHTS, AccessRule
from streamd.store import StoreError

READ: Final = 1
WRITE: Final = 2
CREATE: Final = 4
ADMIN: Final = 8
"""Delete, seal, truncate, list and describe; it includes CREATE, and neither READ nor WRITE."""

VISIBLE: Final = READ | WRITE | ADMIN
"""Any of these lets a peer know of a topic."""

ANY: Final = READ | WRITE | CREATE | ADMIN
_BITS: Final = {"read": READ, "write": WRITE, "create": CREATE, "admin": CREATE | ADMIN}
assert tuple(_BITS) == RIGHTS

# Names whose rights are remembered for one set of rules; a peer that asks for more pays for looking them up again.
_KNOWN_MAX: Final = 10_000

# Topics are counted again for topics_max at most once in so many seconds, and more rarely where there are many: to look
# at a million takes some tenths of a second.
_COUNT_SECONDS: Final = 1.0
_TOPIC_SECONDS: Final = 0.0001


class NotAllowed(StoreError):
    """No rule lets this peer do that."""

    reason = "not_allowed"


class TopicFull(NotAllowed):
    """The topic would hold more than the rules let this peer fill it with."""

    reason = "topic_bytes"


class TooManyTopics(NotAllowed):
    """There are as many topics as the rules let this peer make."""

    reason = "topics"


class _Rule:
    """One rule, ready to be asked."""

    def __init__(self, rule: AccessRule, now: float) -> None:
        self.stated = rule
        self.who = parse_who(rule.who)
        self.rights = 0
        for each in rule.allow:
            self.rights |= _BITS[each]
        self.fits = any_matcher(rule.topics)
        """Whether it is about that topic."""
        self.pace: Pace | None = None
        if rule.messages_per_second_max or rule.bytes_per_second_max:
            self.pace = Pace(rule.messages_per_second_max, rule.bytes_per_second_max, now)
        self._topics = 0
        self._count_again: float | None = None

    def covers(self, prefix: str) -> bool:
        """Whether it is about every topic that begins so, whatever follows."""
        plain = (each[:-1] for each in self.stated.topics if each.endswith("*"))
        return any(prefix.startswith(each) and not re.search(r"[*?\[]", each) for each in plain)

    def has_room(self, names: Callable[[], Iterable[str]], now: float) -> bool:
        """Whether one more topic may be made, which is then counted."""
        if not self.stated.topics_max:
            return True
        if self._count_again is None or (
            # Some may have been deleted since.
            self._topics >= self.stated.topics_max and now >= self._count_again
        ):
            there = list(names())
            self._topics = sum(map(self.fits, there))
            self._count_again = now + max(_COUNT_SECONDS, _TOPIC_SECONDS * len(there))
        if self._topics >= self.stated.topics_max:
            return False
        self._topics += 1
        return True


class Permits:
    """What the peers that the same rules fit may do. They share one of these, and what it remembers."""

    __slots__ = ("_known", "_rules", "_sight", "is_open", "is_stale", "paces")

    def __init__(self, rules: Sequence[_Rule] | None, *, is_stale: bool = False) -> None:
        self._rules = rules or ()
        self._known: dict[str, tuple[int, int]] = {}
        self._sight: Fits | None = None
        self.is_open = rules is None
        """Whether there are no rules, and everything is allowed."""
        self.is_stale = is_stale
        """Whether the rules have changed since: ask for new ones. Then it is not open either, so ask for that first."""
        self.paces = tuple(each.pace for each in self._rules if each.pace is not None)

    def expire(self) -> None:
        """The rules have changed."""
        self.is_stale = True
        self.is_open = False

    def rights(self, name: str) -> int:
        """All rights on a topic."""
        return ANY if self.is_open else (self._known.get(name) or self._find(name))[0]

    def anywhere(self, right: int) -> bool:
        """Whether there may be a topic on which the peer has this right."""
        return self.is_open or any(rule.rights & right for rule in self._rules)

    def covers(self, right: int, prefix: str) -> bool:
        """Whether the peer has this right on every topic that begins so, without a limit to its size."""
        return self.is_open or any(
            rule.rights & right and not rule.stated.topic_bytes_max and rule.covers(prefix) for rule in self._rules
        )

    def sight(self) -> Fits | None:
        """What tells of a name whether the peer may know of such a topic; None where it may know of any.

        For looking through all topics. It remembers none of them: that would push out what others ask for all the time.
        """
        seeing = [rule for rule in self._rules if rule.rights & VISIBLE]
        if self.is_open or any(rule.covers("") for rule in seeing):
            return None
        if self._sight is None:
            self._sight = any_matcher(each for rule in seeing for each in rule.stated.topics)
        return self._sight

    def topic_bytes_max(self, name: str) -> int:
        """How many bytes the peer may fill a topic with; 0 for any number."""
        return 0 if self.is_open else (self._known.get(name) or self._find(name))[1]

    def may_move(self, name: str, group: str) -> bool:
        """Whether the peer may put a reader group of a topic elsewhere, and so have its readers skip or repeat records.

        An administrator may, and who may read the topic may with the groups that a rule names. How far the archive is
        is the position of a group too, and what lies below it may be dropped: no pattern, and no right to read, may
        give that away by accident.
        """
        rights = self.rights(name)
        return bool(rights & ADMIN) or bool(
            rights & READ and any(group in rule.stated.groups and rule.fits(name) for rule in self._rules)
        )

    def may_make(self, name: str, names: Callable[[], Iterable[str]], now: float) -> bool:
        """Whether one of the rules that allow to create this topic has room for one more."""
        return self.is_open or any(
            rule.has_room(names, now) for rule in self._rules if rule.rights & CREATE and rule.fits(name)
        )

    def _find(self, name: str) -> tuple[int, int]:
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        found = self._known[name] = self._look(name)
        return found

    def _look(self, name: str) -> tuple[int, int]:
        fitting = [rule for rule in self._rules if rule.fits(name)]
        rights = 0
        for rule in fitting:
            rights |= rule.rights
        sizes = [rule.stated.topic_bytes_max for rule in fitting if rule.rights & WRITE]
        return rights, max(sizes) if sizes and all(sizes) else 0


STALE: Final = Permits((), is_stale=True)
"""What a connection has before its peer is known: nothing."""


class Access:
    """The rules that are in force, and what they come to for each kind of peer."""

    def __init__(self, rules: Iterable[AccessRule] = (), now: float = 0.0) -> None:
        self._made: dict[tuple[int, ...], Permits] = {}
        self._rules: list[_Rule] = []
        self._open = Permits(None)
        self.replace(rules, now)

    def replace(self, rules: Iterable[AccessRule], now: float) -> None:
        """Put other rules in force, for connections that are open too."""
        for permits in (self._open, *self._made.values()):
            permits.expire()
        self._made = {}
        self._rules = [_Rule(each, now) for each in rules]
        self._open = Permits(None)

    def __bool__(self) -> bool:
        """Whether there are rules."""
        return bool(self._rules)

    @property
    def stated(self) -> list[AccessRule]:
        """The rules as they were written."""
        return [each.stated for each in self._rules]

    def permits(self, peer: Callable[[], Peer]) -> Permits:
        """What a peer may do. Who it is is asked only where there are rules."""
        if not self._rules:
            return self._open
        known = peer()
        fitting = tuple(number for number, rule in enumerate(self._rules) if rule.who.fits(known))
        found = self._made.get(fitting)
        if found is None:
            found = self._made[fitting] = Permits([self._rules[number] for number in fitting])
        return found
