"""What becomes of messages that a reader group does not acknowledge: the rules of the file, and those set by command.

A rule that was set by command is an attribute of the topic's segment, as JSON, and wins over the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from hashlib import blake2b
from typing import Any, Final

from streamd.config import check_group_rule, fill
from streamd.interfaces import ConfigError
from streamd.patterns import Fits, matcher
from streamd.settings import GroupRule
from streamd.store.errors import StoreError
from streamd.store.segments.segment import Segment

_NAME_BYTES: Final = 16
_KEPT: Final = ("deliveries_max", "retry_seconds", "dead_letter")


def group_key(prefix: bytes, group: str) -> bytes:
    """The key of an attribute that belongs to a reader group: names can be longer than keys."""
    return prefix + blake2b(group.encode(), digest_size=_NAME_BYTES).digest()


def rule_key(group: str) -> bytes:
    """The key of the attribute that holds the rule which was set for a group by command."""
    return group_key(b"group rule\0", group)


def pause_of(rule: GroupRule | None, deliveries: int) -> float:
    """How many seconds a message waits that was delivered so often, and came back."""
    if rule is None or not rule.retry_seconds:
        return 0.0
    return rule.retry_seconds[min(deliveries, len(rule.retry_seconds)) - 1]


def rule_as_json(rule: GroupRule | None) -> str:
    """A rule as JSON; an empty text where there is none."""
    if rule is None:
        return ""
    values: dict[str, Any] = asdict(rule)
    return json.dumps({key: values[key] for key in _KEPT})


def rule_from_json(topic: str, text: str) -> GroupRule:
    """The rule that a text of `rule_as_json` says. StoreError where it is none, or would send letters in a circle."""
    try:
        table = json.loads(text)
        if not isinstance(table, Mapping) or not table.keys() <= set(_KEPT):
            raise ConfigError(f"expected an object of {', '.join(_KEPT)}")
        rule = fill(GroupRule, {key: value for key, value in table.items() if value not in ([], 0, "")})
        check_group_rule(rule)
    except (ConfigError, ValueError) as error:
        raise StoreError(f"no rule of a group: {error}")
    if rule.dead_letter == topic:
        raise StoreError(f"the dead letters of {topic!r} can't go to {topic!r}")
    return rule


class Rules:
    """The rules in force. A reload replaces those of the file."""

    def __init__(self) -> None:
        self._stated: list[tuple[GroupRule, Fits, Fits]] = []

    def replace(self, rules: Iterable[GroupRule]) -> None:
        """Put other rules of the file in force, also for groups that are read in."""
        self._stated = [(rule, matcher(rule.topic), matcher(rule.group)) for rule in rules]

    def of(self, segment: Segment, group: str) -> GroupRule | None:
        """The rule for a group: the one set by command, or the first of the file that fits.

        A rule is not for its own dead letters: they would go round in a circle.
        """
        if not group:
            return None
        stored = (segment.attributes or {}).get(rule_key(group))
        if stored is not None:
            return rule_from_json(segment.name, stored.decode())
        for rule, fits_topic, fits_group in self._stated:
            if fits_topic(segment.name) and fits_group(group) and rule.dead_letter != segment.name:
                return rule
        return None
