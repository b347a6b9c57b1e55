"""The reader groups that somebody reads in: one `Members` for each, whatever protocol its members speak."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, WeakValueDictionary

from twisted.internet.defer import Deferred, succeed

from streamd.groups.group import Group, PrivateGroup
from streamd.groups.members import Member, Members

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
            members = self._known[key] = Members(self._core, Group(self._core.store, segment, name))
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
            alone = Members(self._core, group)
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

    def describe(self, segment: Segment) -> dict[str, dict[str, int]]:
        """What an administrator sees of the groups of a segment: those on disk, and those that are read in now."""
        names = dict.fromkeys(segment.groups or ())
        names.update(dict.fromkeys(name for id, name in self._known if id == segment.id))
        return {name: self._describe(segment, name) for name in names}

    def _describe(self, segment: Segment, name: str) -> dict[str, int]:
        known = (segment.groups or {}).get(name)
        members = self._known.get((segment.id, name))
        position = segment.first_number if known is None else known.position
        return {
            "position": position,
            "lag": segment.number - position,
            "ranges": 0 if known is None else len(known.ranges),
            "outstanding": 0 if members is None else members.outstanding_records,
            "members": 0 if members is None else len(members),
        }
