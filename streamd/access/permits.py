"""The rules of access, and what they let a peer do.

Rules add up: a peer may do what any rule that matches it allows, and the order of rules does not matter. No rule takes
away what another one gives. Without any rule everybody may do everything, so the listeners have to be out of reach.

A limit belongs to what its rule allows: a write is refused for the size of a topic only where every rule that allows
the write has such a limit. Rates are different: a peer has to keep the rate of each rule that matches it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from streamd.access.pace import Pace
from streamd.access.who import Peer, parse_who
from streamd.interfaces import RequestError
from streamd.patterns import Fits, any_matcher
from streamd.settings import RIGHTS, AccessRule

READ: Final = 1
WRITE: Final = 2
CREATE: Final = 4
ADMIN: Final = 8
"""Delete, seal, truncate, list and describe. ADMIN includes CREATE, but neither READ nor WRITE."""

VISIBLE: Final = READ | WRITE | ADMIN
"""A peer with any of these rights on a topic may know that the topic exists."""

ANY: Final = READ | WRITE | CREATE | ADMIN
_BITS: Final = {"read": READ, "write": WRITE, "create": CREATE, "admin": CREATE | ADMIN}
assert tuple(_BITS) == RIGHTS


def right_words(rights: int) -> list[str]:
    """What a rule would have to allow: one of these."""
    return [word for word in RIGHTS if _BITS[word] & rights and (word != "admin" or rights & ADMIN)]


# Names whose rights are remembered for one set of rules; a peer that asks for more pays for looking them up again.
_KNOWN_MAX: Final = 10_000

# Topics are counted again for topics_max at most once in so many seconds, and more rarely where there are many: to look
# at a million takes some tenths of a second.
_COUNT_SECONDS: Final = 1.0
_TOPIC_SECONDS: Final = 0.0001


class NotAllowed(RequestError):
    """No rule lets this peer do that. `right` is what it would need, or any of several; 0 where that is not all."""

    reason = "not_allowed"

    def __init__(self, name: str, right: int = 0) -> None:
        super().__init__(name)
        self.right = right


class TopicFull(NotAllowed):
    """The write would take the topic over the size that the rules allow this peer."""

    reason = "topic_bytes"


class TooManyTopics(NotAllowed):
    """There are as many topics as the rules let this peer create."""

    reason = "topics"


class _Rule:
    """One rule of access, with its patterns compiled."""

    def __init__(self, rule: AccessRule, now: float) -> None:
        self.stated = rule
        self.who = parse_who(rule.who)
        self.rights = 0
        for right in rule.allow:
            self.rights |= _BITS[right]
        self.fits = any_matcher(rule.topics)
        """Whether the rule is about the topic of a name."""
        self.pace: Pace | None = None
        if rule.messages_per_second_max or rule.bytes_per_second_max:
            self.pace = Pace(rule.messages_per_second_max, rule.bytes_per_second_max, now)
        self._topics = 0
        self._count_again: float | None = None

    def covers(self, prefix: str) -> bool:
        """Whether the rule is about every topic whose name begins with this prefix."""
        plain = (pattern[:-1] for pattern in self.stated.topics if pattern.endswith("*"))
        return any(prefix.startswith(beginning) and not re.search(r"[*?\[]", beginning) for beginning in plain)

    def has_room(self, names: Callable[[], Iterable[str]], now: float) -> bool:
        """Whether one more topic may be created, which is then counted."""
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
    """What the peers that match the same rules may do. They share one object, and the rights that it caches."""

    __slots__ = ("_known", "_rules", "_sight", "is_open", "is_stale", "paces")

    def __init__(self, rules: Sequence[_Rule] | None, *, is_stale: bool = False) -> None:
        self._rules = rules or ()
        self._known: dict[str, tuple[int, int]] = {}
        self._sight: Fits | None = None
        self.is_open = rules is None
        """Whether there are no rules, and everything is allowed."""
        self.is_stale = is_stale
        """Whether the rules have changed since; the caller has to ask for new permits. A stale object is never open."""
        self.paces = tuple(rule.pace for rule in self._rules if rule.pace is not None)

    def expire(self) -> None:
        """Mark these permits as stale, since the rules have changed."""
        self.is_stale = True
        self.is_open = False

    def rights(self, name: str) -> int:
        """All rights on the topic of a name."""
        return ANY if self.is_open else (self._known.get(name) or self._find(name))[0]

    def anywhere(self, right: int) -> bool:
        """Whether there may be a topic on which the peer has this right."""
        return self.is_open or any(rule.rights & right for rule in self._rules)

    def covers(self, right: int, prefix: str) -> bool:
        """Whether the peer has this right on every topic with this prefix, without a limit on its size."""
        return self.is_open or any(
            rule.rights & right and not rule.stated.topic_bytes_max and rule.covers(prefix) for rule in self._rules
        )

    def sight(self) -> Fits | None:
        """A predicate on names: whether the peer may know of such a topic. None where it may know of all.

        It is for scans of all topics. It caches no rights: a scan would push out those that are asked for all the time.
        """
        seeing = [rule for rule in self._rules if rule.rights & VISIBLE]
        if self.is_open or any(rule.covers("") for rule in seeing):
            return None
        if self._sight is None:
            self._sight = any_matcher(pattern for rule in seeing for pattern in rule.stated.topics)
        return self._sight

    def topic_bytes_max(self, name: str) -> int:
        """The limit on the bytes of a topic for writes of this peer; 0 for no limit."""
        return 0 if self.is_open else (self._known.get(name) or self._find(name))[1]

    def may_move(self, name: str, group: str) -> bool:
        """Whether the peer may move a reader group of a topic, and so make its readers skip or repeat records.

        An administrator may, and a peer that may read the topic may move the groups that a rule names. The position of
        the archive is a reader group too, and what lies below it may be dropped: neither a pattern nor the right to
        read may give that away by accident.
        """
        rights = self.rights(name)
        return bool(rights & ADMIN) or bool(
            rights & READ and any(group in rule.stated.groups and rule.fits(name) for rule in self._rules)
        )

    def may_make(self, name: str, names: Callable[[], Iterable[str]], now: float) -> bool:
        """Whether a rule that allows to create this topic has room for one more."""
        return self.is_open or any(
            rule.has_room(names, now) for rule in self._rules if rule.rights & CREATE and rule.fits(name)
        )

    def _find(self, name: str) -> tuple[int, int]:
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        rights = self._known[name] = self._look(name)
        return rights

    def _look(self, name: str) -> tuple[int, int]:
        fitting = [rule for rule in self._rules if rule.fits(name)]
        rights = 0
        for rule in fitting:
            rights |= rule.rights
        sizes = [rule.stated.topic_bytes_max for rule in fitting if rule.rights & WRITE]
        return rights, max(sizes) if sizes and all(sizes) else 0


STALE: Final = Permits((), is_stale=True)
"""The permits of a connection whose peer is not known yet: nothing is allowed."""


class Access:
    """The rules in force, and the permits that follow from them for each kind of peer."""

    def __init__(self, rules: Iterable[AccessRule] = (), now: float = 0.0) -> None:
        self._made: dict[tuple[int, ...], Permits] = {}
        self._rules: list[_Rule] = []
        self._open = Permits(None)
        self.replace(rules, now)

    def replace(self, rules: Iterable[AccessRule], now: float) -> None:
        """Put other rules in force, also for connections that are open."""
        for permits in (self._open, *self._made.values()):
            permits.expire()
        self._made = {}
        self._rules = [_Rule(rule, now) for rule in rules]
        self._open = Permits(None)

    def __bool__(self) -> bool:
        """Whether there are rules."""
        return bool(self._rules)

    @property
    def stated(self) -> list[AccessRule]:
        """The rules as they were written."""
        return [rule.stated for rule in self._rules]

    def permits(self, peer: Callable[[], Peer]) -> Permits:
        """The permits of a peer. `peer` is called only where there are rules."""
        if not self._rules:
            return self._open
        known = peer()
        fitting = tuple(number for number, rule in enumerate(self._rules) if rule.who.fits(known))
        permits = self._made.get(fitting)
        if permits is None:
            permits = self._made[fitting] = Permits([self._rules[number] for number in fitting])
        return permits
