"""The messages for tools, for the mixes: hidden segments, their publication, reader groups and ack levels."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from streamd.batch import Batch
from streamd.connections.core import Core
from streamd.protocols.pravega.protocol import PravegaFactory, PravegaSettings
from streamd.wire import tools as storage
from streamd.wire.fields import Message, from_payload, to_bytes
from streamd.wire.pravega.documented import HEADER
from streamd.wire.tools import Code
from tests.protocols.mixes.machinery import Ask, MixRig, Speaker

TOPICS = ("t1", "t2")
HIDDEN = ("h1", "h2", "h3")
WRITER = b"w" * 16


class World:
    """The records of topics and of hidden segments, reader groups and ack levels of topics."""

    def __init__(self) -> None:
        self.records: dict[str, list[bytes]] = {name: [] for name in (*TOPICS, *HIDDEN)}
        self.groups: dict[tuple[str, str], int] = {}
        self.levels: dict[str, int] = {}


class Tools(Speaker):
    """Requests about two topics and three hidden segments, which are there at first."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._ids: dict[str, int] = {}
        self._request = 0

    @classmethod
    def factory(cls, core: Core) -> PravegaFactory:
        return PravegaFactory(core, PravegaSettings(10.0))

    def prepare(self, rig: MixRig) -> None:
        for name in (*TOPICS, *HIDDEN):
            rig.store.create(name, hidden=name in HIDDEN)
        super().prepare(rig)
        self._ids = {name: rig.store.find(name).id for name in TOPICS}
        self._ids |= {name: rig.store.find_hidden(name).id for name in HIDDEN}

    def world(self) -> World:
        return World()

    def opening(self, number: int) -> list[Ask]:
        return []

    def ask(self, number: int) -> Ask:
        random = self.random
        self._request += 1
        kind = random.choice((*["append"] * 6, "publish", "publish", "delete", "set", "set", "get", "level", "find"))
        return getattr(self, f"_{kind}")(random.choice(TOPICS), random.choice(HIDDEN))  # type: ignore[no-any-return]

    @classmethod
    def comparable(cls, told: bytes) -> bytes:
        """Refusals without their text."""
        answers: list[bytes] = []
        while len(told) >= HEADER.size:
            kind, length = HEADER.unpack_from(told)
            payload, answer = told[HEADER.size : HEADER.size + length], told[: HEADER.size + length]
            told = told[HEADER.size + length :]
            if kind == storage.Refusal.type and len(payload) == length:
                refusal = from_payload(storage.Refusal, payload)
                answer = _refusal(refusal.id, Code(refusal.code), refusal.number)
            answers.append(answer)
        return b"".join([*answers, told])

    def stored(self, world: World) -> dict[str, list[bytes]]:
        return {name: world.records[name] for name in TOPICS}

    def _of(self, name: str, message: Message, act: Callable[[World], Message | bytes]) -> Ask:
        def told(world: World, number: int) -> bytes:
            reply = act(world)
            return reply if isinstance(reply, bytes) else to_bytes(reply)

        return Ask(to_bytes(message), told, name)

    def _append(self, topic: str, hidden: str) -> Ask:
        id = self._request
        records = [b"r%d" % self.random.randrange(100) for _ in range(self.random.randrange(1, 4))]
        number = self.random.choice((0, 0, 1, 2, 3, 4))

        def act(world: World) -> Message | bytes:
            there = world.records.get(hidden)
            if there is None:
                return _refusal(id, Code.NO_SUCH_SEGMENT)
            if number + len(records) > len(there):
                if number != len(there):
                    return _refusal(id, Code.LEVEL_MISMATCH, len(there))
                there += records
            return storage.RecordsAppended(id, number + len(records))

        message = storage.AppendRecords(id, self._ids[hidden], number, Batch.of(records))
        return self._of(f"append-{hidden}-{number}-{len(records)}", message, act)

    def _publish(self, topic: str, hidden: str) -> Ask:
        id = self._request
        level = self.random.choice((0, 0, 1, 2))

        def act(world: World) -> Message | bytes:
            have = world.levels.get(topic)
            again = level > 0 and have is not None and have >= level
            if again:
                world.records.pop(hidden, None)
                return storage.SegmentsPublished(id, True)
            if hidden not in world.records:
                return _refusal(id, Code.NO_SUCH_SEGMENT)
            if level:
                if (have or 0) != level - 1:
                    return _refusal(id, Code.LEVEL_MISMATCH, have or 0)
                world.levels[topic] = level
            world.records[topic] += world.records.pop(hidden)
            return storage.SegmentsPublished(id, False)

        raised = storage.LevelChange(self._ids[topic], WRITER, level - 1, level)
        parts = (storage.Part(self._ids[hidden], self._ids[topic]),)
        message = storage.PublishSegments(id, parts, (raised,) if level else ())
        return self._of(f"publish-{hidden}-{topic}-{level}", message, act)

    def _delete(self, topic: str, hidden: str) -> Ask:
        id = self._request

        def act(world: World) -> Message:
            return storage.HiddenDeleted(id, int(world.records.pop(hidden, None) is not None))

        return self._of(f"delete-{hidden}", storage.DeleteHidden(id, (self._ids[hidden],)), act)

    def _set(self, topic: str, hidden: str) -> Ask:
        id, position = self._request, self.random.randrange(9)

        def act(world: World) -> Message:
            world.groups[topic, "g"] = position
            return storage.GroupPosition(id, True, position)

        return self._of(f"set-{topic}-{position}", storage.SetGroup(id, self._ids[topic], "g", position), act)

    def _get(self, topic: str, hidden: str) -> Ask:
        id = self._request

        def act(world: World) -> Message:
            position = world.groups.get((topic, "g"))
            return storage.GroupPosition(id, position is not None, position or 0)

        return self._of(f"get-{topic}", storage.GetGroup(id, self._ids[topic], "g"), act)

    def _level(self, topic: str, hidden: str) -> Ask:
        id = self._request

        def act(world: World) -> Message:
            level = world.levels.get(topic)
            return storage.LevelFound(id, level is not None, level or 0)

        return self._of(f"level-{topic}", storage.GetLevel(id, self._ids[topic], WRITER), act)

    def _find(self, topic: str, hidden: str) -> Ask:
        id, number = self._request, self.random.randrange(4)

        def act(world: World) -> Message | bytes:
            records = world.records[topic]
            if number > len(records):
                return _refusal(id, Code.BAD_REQUEST)
            offset = sum(HEADER.size + len(record) for record in records[:number])
            return storage.RecordFound(id, number, offset)

        message = storage.FindRecord(id, self._ids[topic], storage.By.NUMBER, number)
        return self._of(f"find-{topic}-{number}", message, act)


def _refusal(id: int, code: Code, number: int = 0) -> bytes:
    return to_bytes(storage.Refusal(id, code, number, 0, ""))
