"""The messages for tools: each is refused where no rule allows it, and who may nothing is not told that it is there."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamd.batch import Batch
from streamd.settings import RIGHTS, AccessRule
from streamd.wire import tools as storage
from streamd.wire import work
from streamd.wire.tools import By, Code, Existing, LevelChange, Part
from tests.protocols.laws.held import contents
from tests.rigs.access.rules import NOBODY, rule
from tests.rigs.protocols.pravega_case import OTHER, StorageCase


class Command(NamedTuple):
    """A request about the segment ``s`` or about a hidden one, and the words that allow it, each alone."""

    make: Any
    values: tuple[object, ...]
    rights: str


class DenyTests(StorageCase):
    """Requests by id."""

    def setUp(self) -> None:
        super().setUp()
        self.rig.publish("s", b"one", b"two")
        self.hidden = self.hide("h", b"three")

    def put(self, *rules: AccessRule) -> None:
        self.rig.core.access.replace(rules, 0.0)

    def commands(self) -> list[Command]:
        s, h = self.segment, self.hidden
        return [
            Command(storage.DescribeSegment, (s,), "read write admin"),
            Command(storage.DescribeSegment, (h,), "write"),
            Command(storage.ReadRecords, (s, 0, 10, 1000), "read"),
            Command(storage.FindRecord, (s, By.NUMBER, 0), "read"),
            Command(storage.SplitRecords, (s, 0, 2, 2), "read"),
            Command(storage.GetGroup, (s, "g"), "read"),
            Command(storage.SetGroup, (s, "g", 1), "admin"),
            Command(storage.GetLevel, (s, OTHER), "read write admin"),
            Command(storage.AppendRecords, (h, 1, Batch.of([b"x"])), "write"),
            Command(storage.PublishSegments, ([], [LevelChange(s, OTHER, 0, 1)]), "write"),
            Command(storage.PublishSegments, ([Part(h, s)], []), "write"),
            Command(work.MoveGroup, (s, "g", 1, False), "admin"),
            Command(work.DropGroup, (s, "g", False), "admin"),
            Command(work.SetGroupRule, (s, "g", ""), "admin"),
            Command(work.TakeRecords, (s, "g", False, 1, 100, 0), "read"),
            Command(work.AcknowledgeRecords, (s, "g", (0,)), "read"),
            Command(work.RefuseRecords, (s, "g", (0,), -1, ""), "read"),
            Command(work.AwaitRecord, (s, 0, 0), "read"),
            Command(work.StoreRecords, (s, work.NO_WRITER, 0, 0, Batch.of([b"x"])), "write"),
            Command(work.DescribeTopic, (s,), "admin"),
            Command(work.TruncateTopic, (s, 1), "admin"),
            Command(work.SealTopic, (s,), "admin"),
            Command(work.DeleteTopic, (s,), "admin"),
        ]

    def test_every(self) -> None:
        """No message is left out here and below."""
        by_name = {storage.ListSegments, storage.NameSegments, storage.MakeSegment, storage.DeleteHidden}
        # Who leaves has been a member, which takes the right to read.
        by_name |= {work.ListGroups, work.LeaveGroup}
        self.assertEqual({each.make for each in self.commands()} | by_name, {*storage.REQUESTS.values()})

    def test_denied(self) -> None:
        """To who may nothing, it is not there, and its name is not told; nothing changes."""
        self.put(NOBODY)
        before = contents(self.rig.store)
        for number, command in enumerate(self.commands(), 1):
            reply = self.refused(Code.NO_SUCH_SEGMENT, command.make, *command.values)
            self.assertRegex(reply.text, r"^segment \d+$")
            self.assertEqual(self.rig.load.refusals["not_allowed"], number)
        self.assertEqual(contents(self.rig.store), before)
        self.assertEqual(self.rig.store.find_id(self.hidden).number, 1)

    def test_other_rights(self) -> None:
        """Who may do something else with it is told that this is not allowed; to create is not to know."""
        for command in self.commands():
            others = [word for word in RIGHTS if word not in command.rights.split()]
            self.put(rule(*others))
            knows = {"read", "write", "admin"} & set(others)
            self.refused(Code.NOT_ALLOWED if knows else Code.NO_SUCH_SEGMENT, command.make, *command.values)

    def test_allowed(self) -> None:
        """Each of the rights that allow it is enough."""
        for command in self.commands():
            for word in command.rights.split():
                self.put(rule(word))
                self.assertNotIsInstance(self.ask(command.make, *command.values), storage.Refusal)
        self.assertEqual(sum(self.rig.load.refusals.values()), 0)

    def test_publish(self) -> None:
        """Both ends of a publication need the right, the hidden segment and its target, whose size counts too."""
        asked: tuple[Any, ...] = (storage.PublishSegments, [Part(self.hidden, self.segment)], [])
        for topic in ("s", "h"):
            self.put(rule("write", topics=(topic,)))
            self.refused(Code.NO_SUCH_SEGMENT, *asked)
        self.put(rule("write", topic_bytes_max=30))
        self.refused(Code.NOT_ALLOWED, *asked)
        self.assertEqual(self.rig.load.refusals["topic_bytes"], 1)
        self.assertEqual(self.rig.store.find("s").number, 2)


class NameTests(StorageCase):
    """Requests by name."""

    def put(self, *rules: AccessRule) -> None:
        self.rig.core.access.replace(rules, 0.0)

    def test_list(self) -> None:
        """What a peer has a right on is listed and found by name, and nothing else."""
        for name in ("a", "b", "c", "d"):
            self.make(name)
        self.put(
            rule("read", topics=("a",)),
            rule("write", topics=("b",)),
            rule("admin", topics=("c",)),
            rule("create", topics=("d",)),
        )
        listed = self.ask(storage.ListSegments, "*", 0)
        named = self.ask(storage.NameSegments, ["d", "c", "b", "a", "s"])
        self.assertEqual([info.name for info in listed.segments], ["a", "b", "c"])
        self.assertEqual([info.name for info in named.segments], ["c", "b", "a"])
        self.put(NOBODY)
        self.assertEqual(self.ask(storage.ListSegments, "*", 0).segments, ())
        self.assertEqual(self.ask(storage.NameSegments, ["a"]).segments, ())

    def test_make(self) -> None:
        """To make a segment takes the right to create; to take one that is there, any; a hidden one, to write."""
        self.put(rule("read", "write"))
        self.refused(Code.NOT_ALLOWED, storage.MakeSegment, "new", False, Existing.REFUSED)
        self.refused(Code.NOT_ALLOWED, storage.MakeSegment, "new", False, Existing.TAKEN)
        self.assertEqual(self.make("s", existing=Existing.TAKEN), self.segment)
        self.put(rule("create", "read", "admin"))
        for existing in (Existing.REFUSED, Existing.REPLACED):
            self.refused(Code.NOT_ALLOWED, storage.MakeSegment, "h", True, existing)
        self.make("new")
        self.put(rule("create"))
        self.refused(Code.NOT_ALLOWED, storage.MakeSegment, "s", False, Existing.TAKEN)
        self.put(rule("write"))
        self.make("h", hidden=True)

    def test_delete(self) -> None:
        """A hidden segment of somebody else is not there to be deleted."""
        mine, other = self.hide("mine/1", b"x"), self.hide("other/1", b"y")
        self.put(rule("write", topics=("mine/*",)))
        self.assertEqual(self.ask(storage.DeleteHidden, [mine, other]).count, 1)
        self.assertEqual(self.rig.store.find_id(other).number, 1)
        self.assertEqual(self.rig.load.refusals["not_allowed"], 1)
