"""Messages that no reader acknowledges: pauses, counts that survive a restart, dead letters."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from streamd.groups import Groups
from streamd.settings import GroupRule
from streamd.store import StoreError
from streamd.store.journal.frame import Kind
from tests.rigs.groups.members import MembersCase, Reader

RULE = GroupRule(topic="a", group="g", deliveries_max=3, retry_seconds=(1.0, 10.0), dead_letter="a.dead")


class AttemptsCase(MembersCase):
    """A group with a rule."""

    rule = RULE

    def begin(self) -> None:
        super().begin()
        self.groups.rules.replace([self.rule])

    def refuse(self, reader: Reader, *numbers: int, **keywords: Any) -> None:
        """Refuse, and let that come to the disk."""
        done, unknown = reader.member.refuse(numbers, **keywords)
        self.writer.run()
        self.successResultOf(done)
        self.assertFalse(unknown)
        self.turn()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and what it leads to come to the disk."""
        self.clock.advance(seconds)
        self.writer.run()
        self.turn()

    def letters(self, topic: str = "a.dead") -> list[dict[str, Any]]:
        """The dead letters that there are."""
        self.writer.run()
        return [json.loads(each) for each in self.records(topic)]


class PauseTests(AttemptsCase):
    def test_pauses_grow(self) -> None:
        """A message comes again after the first pause, then after the second; others are not held up by that."""
        self.add(3)
        reader = Reader(self)
        self.assertEqual(reader.read(), [0, 1, 2])
        self.refuse(reader, 1)
        self.acknowledge(reader, 0, 2)
        self.add(1)
        self.turn()
        self.assertEqual(reader.got[3:], [3], "no worker waits for the pause of another message")
        self.pass_time(0.9)
        self.assertEqual(reader.got[4:], [])
        self.pass_time(0.2)
        self.assertEqual(reader.got[4:], [1])
        self.assertEqual(reader.member.deliveries_of(1), 2)
        self.refuse(reader, 1)
        self.pass_time(9.9)
        self.assertEqual(reader.got[5:], [])
        self.pass_time(0.2)
        self.assertEqual(reader.got[5:], [1])
        self.assertEqual(reader.member.deliveries_of(1), 3)

    def test_a_reader_says_when(self) -> None:
        """A refusal with seconds of its own goes by these, also where no rule is; 0 means at once."""
        for rules in ([self.rule], []):
            self.groups.rules.replace(rules)
            self.add(1)
            reader = Reader(self)
            (number,) = reader.read()
            self.refuse(reader, number, seconds=5.0)
            self.pass_time(4.9)
            self.assertEqual(reader.got, [number])
            self.pass_time(0.2)
            self.assertEqual(reader.got, [number, number])
            self.refuse(reader, number, seconds=0.0)
            self.assertEqual(reader.got, [number] * 3)
            self.acknowledge(reader, number)
            reader.member.leave()

    def test_acknowledged_while_it_waits(self) -> None:
        """Who had a message may acknowledge it though its time was over: it does not come again."""
        self.add(1)
        reader = Reader(self)
        reader.read()
        self.pass_time(30.0)
        self.assertEqual(self.acknowledge(reader, 0), frozenset())
        self.pass_time(100.0)
        self.assertEqual(reader.got, [0])
        self.assertEqual(len(self.members().attempts), 0)
        self.assertFalse(self.segment.attributes)

    def test_memory(self) -> None:
        """The group gives out nothing new while as many messages wait as may be outstanding."""
        self.groups.rules.replace([GroupRule(retry_seconds=(1000.0,))])
        self.add(200)
        reader = Reader(self)
        reader.read()
        refused = 0
        while new := reader.got[refused:]:
            refused += len(new)
            self.refuse(reader, *new)
        self.assertEqual(len(self.members().attempts), self.limits.group_outstanding_records_max)
        self.assertEqual(len(reader.got), self.limits.group_outstanding_records_max)
        self.pass_time(1000.0)
        self.assertGreater(len(reader.got), self.limits.group_outstanding_records_max)

    def test_leaving_in_order(self) -> None:
        """What a reader has that disconnects was not delivered in vain; a lost connection counts, and a timeout."""
        for leave, deliveries in (
            (lambda reader: reader.member.leave(in_order=True), 1),
            (lambda reader: reader.member.leave(), 2),
            (lambda reader: self.clock.advance(30), 2),
        ):
            self.add(1)
            reader, other = Reader(self), Reader(self)
            (number,) = reader.read()
            leave(reader)
            reader.busy = True
            other.read()
            self.pass_time(10.0)
            self.assertEqual(other.got, [number])
            self.assertEqual(other.member.deliveries_of(number), deliveries)
            self.acknowledge(other, number)
            reader.member.leave()
            other.member.leave()


class RestartTests(AttemptsCase):
    def test_counts_survive(self) -> None:
        """The process is killed after each refusal, and after each delivery but the first: all of them count."""
        for after in ("refusal", "delivery"):
            self.add(1)
            number = self.segment.number - 1
            reader = Reader(self)
            reader.read()
            self.refuse(reader, number)
            for deliveries in (2, 3):
                if after == "refusal":
                    self.restart()
                    reader = Reader(self)
                    reader.read()
                self.assertEqual(reader.got[1:] if after == "delivery" else reader.got, [], "it waits still")
                self.pass_time(10.0)
                if after == "delivery":
                    self.restart()
                    reader = Reader(self)
                    reader.read()
                    self.pass_time(10.0)
                    deliveries += 1
                self.assertEqual(reader.got[-1:], [number])
                self.assertEqual(reader.member.deliveries_of(number), deliveries)
                if after == "delivery":
                    break
                if deliveries < 3:
                    self.refuse(reader, number)
            self.acknowledge(reader, number)
            self.assertFalse(self.segment.attributes, "nothing is left on disk of what is acknowledged")
            self.restart()

    def test_what_is_gone(self) -> None:
        """A count for a message that was acknowledged or dropped since is not kept."""
        self.add(3)
        reader = Reader(self)
        reader.read()
        self.refuse(reader, 0, 1, 2)
        self.restart()
        self.do(self.store.truncate, self.segment, 1)
        self.do(self.store.acknowledge, self.segment, "g", [(1, 2)])
        reader = Reader(self)
        reader.read()
        self.pass_time(10.0)
        self.assertEqual(reader.got, [2])
        self.assertEqual(len(self.members().attempts), 1)


class DeadLetterTests(AttemptsCase):
    def give_up(self, number: int, **keywords: Any) -> Reader:
        """Deliver a message as often as the rule allows."""
        reader = Reader(self)
        reader.read()
        for _ in range(3):
            self.refuse(reader, number, **keywords)
            self.pass_time(10.0)
        return reader

    def test_form(self) -> None:
        """A dead letter tells where it came from, how often it was delivered and why; it is acknowledged with it."""
        self.append(self.segment, b"text", b"\xff\x00")
        for number in (0, 1):
            reader = self.give_up(number, error="no such customer" if number else "")
            reader.member.leave(in_order=True)
        text, binary = self.letters()
        self.assertEqual(
            {key: text[key] for key in text if key != "timestamp"},
            {"topic": "a", "offset": 0, "value": "text", "group": "g", "deliveries": 3, "reason": "refused"},
        )
        self.assertEqual(binary["value_base64"], "/wA=")
        self.assertEqual(binary["error"], "no such customer")
        known = self.segment.groups["g"]  # type: ignore[index]
        self.assertEqual(known.position, 2)
        self.assertFalse(self.segment.attributes)
        self.assertEqual(self.groups.describe_one(self.segment, "g")["lag"], 0)

    def test_one_frame(self) -> None:
        """The append of a dead letter and the acknowledgement are one frame: no crash can part them."""
        self.add(1)
        self.create("a.dead")
        self.give_up(0)
        frames = [{entry.kind for entry in frame.headers} for frame in self.frames() if self.is_letter(frame)]
        self.assertEqual(frames, [{Kind.APPEND, Kind.GROUP_ACK}])

    def is_letter(self, frame: Any) -> bool:
        dead = self.store.find("a.dead").id
        return any(entry.kind == Kind.APPEND and entry.segment == dead for entry in frame.headers)

    def test_killed_before(self) -> None:
        """A process that is killed with a message that is to be given up: the next one gives it up."""
        self.add(1)
        reader = Reader(self)
        reader.read()
        for _ in range(2):
            self.refuse(reader, 0)
            self.pass_time(10.0)
        reader.member.refuse([0])
        self.restart()
        reader = Reader(self)
        reader.read()
        self.pass_time(10.0)
        self.assertEqual(reader.got, [])
        self.assertEqual(len(self.letters()), 1)

    def test_can_not_be_moved(self) -> None:
        """Where the topic of dead letters takes none, the message is kept, not delivered again, and moved later."""
        self.add(1)
        (dead,) = self.create("a.dead")
        self.do(self.store.seal, dead)
        reader = self.give_up(0)
        self.assertEqual(len(reader.got), 3)
        self.assertEqual(self.groups.describe_one(self.segment, "g")["lag"], 1)
        self.do(self.store.delete, dead)
        for _ in range(3):
            self.pass_time(5.0)
        self.assertEqual(len(self.letters()), 1)
        self.assertEqual(len(reader.got), 3)

    def test_many(self) -> None:
        """All messages of a reader that is gone are given up at once, each once."""
        self.groups.rules.replace([replace(RULE, deliveries_max=1)])
        self.add(20)
        reader = Reader(self)
        reader.read()
        reader.member.leave()
        self.assertEqual(sorted(each["offset"] for each in self.letters()), list(range(20)))
        self.assertEqual(self.segment.groups["g"].position, 20)  # type: ignore[index]

    def test_own_letters(self) -> None:
        """A rule that fits the topic of its own dead letters does not count there: they go in no circle."""
        self.groups.rules.replace([replace(RULE, topic="*", group="*")])
        self.assertIsNotNone(self.groups.rules.of(self.segment, "g"))
        (dead,) = self.create("a.dead")
        self.assertIsNone(self.groups.rules.of(dead, "g"))


class CommandTests(AttemptsCase):
    def test_set_by_command(self) -> None:
        """A rule that is set for a group wins over the file, survives a restart, and goes with the group."""
        self.do(self.groups.set_rule, self.segment, "g", '{"retry_seconds": [7]}')
        self.restart()
        self.assertEqual(self.groups.describe_one(self.segment, "g")["rule"]["retry_seconds"], [7.0])
        self.do(self.groups.delete, self.segment, "g")
        rule = self.groups.describe_one(self.segment, "g")["rule"]
        self.assertEqual(rule["deliveries_max"], RULE.deliveries_max)

    def test_bad_rules(self) -> None:
        """What is no rule is refused, and what is in force stays."""
        for text in ("x", "[]", '{"deliveries_max": 3}', '{"dead_letter": "x"}', '{"retry_seconds": [-1]}', '{"a": 1}'):
            self.assertRaises(StoreError, self.groups.set_rule, self.segment, "g", text)
        self.assertRaises(
            StoreError, self.groups.set_rule, self.segment, "g", '{"deliveries_max": 1, "dead_letter": "a"}'
        )

    def test_move(self) -> None:
        """A group that is moved begins there anew, for those who read in it too: counts and pauses are gone."""
        self.add(5)
        reader = Reader(self)
        reader.read()
        self.refuse(reader, 3)
        self.acknowledge(reader, 0)
        self.do(self.groups.move, self.segment, "g", 2)
        self.turn()
        self.assertEqual(reader.got[5:], [2, 3, 4])
        self.pass_time(20.0)
        self.assertEqual(reader.got[5:], [2, 3, 4])
        self.assertFalse(self.segment.attributes)
        self.restart()
        self.assertEqual(Groups.of(self.core).describe_one(self.segment, "g")["position"], 2)
