"""The reader groups that somebody reads in: one `Members` for each, whatever protocol its members speak."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, WeakValueDictionary

from twisted.internet.defer import Deferred, succeed

from streamd.groups.attempts import stored_attempts
from streamd.groups.group import Group, PrivateGroup
from streamd.groups.member import Member
from streamd.groups.members import Members
from streamd.groups.rules import Rules, rule_as_json, rule_from_json, rule_key
from streamd.metrics import GroupCounts
from streamd.store.errors import StoreError
from streamd.store.segments.ranges import Acknowledged

if TYPE_CHECKING:
    from streamd.connections.core import Core
    from streamd.store import Segment


class Groups:
    """Finds groups, and makes those that are not there. Who uses one holds it; a group that nobody holds is let go.

    It loses nothing by that: what is not acknowledged is given out again, as after a restart.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: WeakValueDictionary[tuple[int, str], Members] = WeakValueDictionary()
        self._private: WeakSet[Members] = WeakSet()
        """Those of one reader each, without a name."""
        self.rules = Rules()
        """What becomes of messages that are not acknowledged."""
        self.counted = GroupCounts()

    @classmethod
    def of(cls, core: Core) -> Groups:
        """Those that all endpoints of all protocols share."""
        groups: Groups = core.shared.setdefault(("groups", ""), cls(core))
        return groups

    def use(self, segment: Segment, name: str, *, consumes: bool = False) -> Members:
        """The group of that name; a new one begins at the first record."""
        key = (segment.id, name)
        members = self._known.get(key)
        if members is None:
            group = Group(self._core.store, segment, name)
            members = self._known[key] = Members(self._core, group, self.counted, lambda: self.rules.of(segment, name))
        members.group.consumes |= consumes
        return members

    def join(self, segment: Segment, name: str, wake: Callable[[], None], *, latest: bool = False) -> Deferred[Member]:
        """A new member of a group. One that is new begins at the first record, or at the `latest`: behind the last.

        Without a name it is a group of its own, which gets everything and leaves nothing behind.
        """
        if not name:
            group = PrivateGroup(self._core.store, segment)
            if latest:
                group.begin_at(segment.number)
            alone = Members(self._core, group, self.counted)
            self._private.add(alone)
            return succeed(alone.join(wake))
        is_new = (segment.id, name) not in self._known and name not in (segment.groups or {})
        members = self.use(segment, name)
        if is_new and latest:
            self._begin_at_end(members)
        if members.joining is None:
            return succeed(members.join(wake))
        turn: Deferred[None] = Deferred()
        members.joining.append(turn)
        return turn.addCallback(lambda _: members.join(wake))

    def _begin_at_end(self, members: Members) -> None:
        """Put a group behind the last record, on disk before anybody joins: a crash must not move it further."""
        group = members.group
        group.begin_at(group.segment.number)

        def placed(result: Any) -> None:
            waiting, members.joining = members.joining or [], None
            for each in waiting:
                each.callback(result)  # or its failure

        placing = self._core.store.set_group(group.segment, group.name, group.segment.number)
        members.joining = []
        placing.addBoth(placed)

    def limits_changed(self) -> None:
        """Have all groups that somebody reads in go by the limits that are in force now."""
        for members in [*self._known.values(), *self._private]:
            members.limits_changed()

    # -- for administrators --------------------------------------------------------------------------------------------

    def segments(self, after: int) -> list[Segment]:
        """The topics that have groups, by their ids: those above this one."""
        ids = {segment.id: segment for segment in self._core.store.grouped() if segment.id > after}
        for members in self._known.values():
            segment = members.group.segment
            if len(members) and segment.id > after and not segment.deleted:
                ids[segment.id] = segment
        return [segment for _, segment in sorted(ids.items()) if not segment.hidden]

    def named(self, segment: Segment) -> list[str]:
        """The names of a segment's groups: those on disk, and those that are read in now."""
        names = dict.fromkeys(segment.groups or ())
        for (id, name), members in self._known.items():
            if id == segment.id and len(members):
                names[name] = None
        return list(names)

    def members_of(self, segment: Segment, name: str) -> int:
        """How many read in a group now."""
        members = self._known.get((segment.id, name))
        return 0 if members is None else len(members)

    def move(self, segment: Segment, name: str, position: int) -> Deferred[None]:
        """Put a group at a position, also where it is read in: all below is acknowledged, nothing above."""
        moved = self._core.store.set_group(segment, name, position)
        self._begin_anew(segment, name, max(position, segment.claimed_first_number))
        return moved

    def delete(self, segment: Segment, name: str) -> Deferred[None]:
        """Forget a group, with its rule. One that is read in begins anew at the first record."""
        self.set_rule(segment, name, "")
        dropped = self._core.store.drop_group(segment, name)
        self._begin_anew(segment, name, segment.claimed_first_number)
        return dropped

    def _begin_anew(self, segment: Segment, name: str, position: int) -> None:
        members = self._known.get((segment.id, name))
        if members is not None:
            members.move_to(position)
        for key in stored_attempts(segment.attributes, name):
            self._core.store.set_attribute(segment, key, None).addErrback(lambda failure: failure.trap(StoreError))

    def set_rule(self, segment: Segment, name: str, text: str) -> Deferred[None]:
        """Set a group's rule, as JSON, which wins over the file; an empty text lets the file count again."""
        stored = rule_as_json(rule_from_json(segment.name, text)).encode() if text else None
        if stored is None and rule_key(name) not in (segment.attributes or {}):
            return succeed(None)
        return self._core.store.set_attribute(segment, rule_key(name), stored)

    def describe(self, segment: Segment) -> dict[str, dict[str, Any]]:
        """What an administrator sees of the groups of a segment."""
        return {name: self.describe_one(segment, name) for name in self.named(segment)}

    def describe_one(self, segment: Segment, name: str) -> dict[str, Any]:
        """What an administrator sees of one group. Its lag is what is still to be acknowledged."""
        acknowledged = (segment.groups or {}).get(name) or Acknowledged(segment.first_number)
        members = self._known.get((segment.id, name))
        rule = rule_as_json(self.rules.of(segment, name))
        return {
            "position": acknowledged.position,
            "lag": acknowledged.lag(segment.number),
            "ranges": len(acknowledged.ranges),
            "outstanding": 0 if members is None else members.outstanding_records,
            "members": 0 if members is None else len(members),
            "waiting": sum(stored_attempts(segment.attributes, name).values())
            if members is None
            else members.attempts.held_records,
            "redeliveries": 0 if members is None else members.redeliveries,
            "dead_letters": 0 if members is None else members.letters.moved,
            "rule": json.loads(rule) if rule else None,
        }
