"""Reader groups: the records of a segment, each given to one member, and acknowledged for all of them.

What is acknowledged is durable and lives in the segment (`streamd.store.segments.ranges`). What is given out and not
acknowledged yet is known only here: after a crash it is given out again.

`Group` knows what nobody has. `Members` is a group with those who read: it gives out, waits for acknowledgements, and
wakes who has nothing to do. `Groups` finds the one `Members` that all protocols share. `rules` say what becomes of
records that come back, `attempts` counts and delays them, `letters` moves those that are given up. `Delayed` keeps
messages until their time.
"""

from __future__ import annotations

from streamd.groups.delayed import Delayed
from streamd.groups.group import Group, PrivateGroup
from streamd.groups.member import Member
from streamd.groups.members import Members
from streamd.groups.registry import Groups
from streamd.groups.returned import Range

__all__ = ["Delayed", "Group", "Groups", "Member", "Members", "PrivateGroup", "Range"]
