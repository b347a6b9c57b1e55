"""Pravega's append blocks for the mixes."""

from __future__ import annotations

from itertools import accumulate
from random import Random

from streamd.connections.core import Core
from streamd.protocols.pravega.protocol import PravegaFactory, PravegaSettings
from streamd.wire.pravega.documented import HEADER, Type, message
from tests.protocols.laws.pravega import Pravega as Law
from tests.protocols.laws.pravega import appended, create, created, ready, segment_read
from tests.protocols.mixes.machinery import Ask, Closed, Speaker
from tests.rigs.wire.pravega import block, event, read, setup, text

NAMES = ("s", "t")
WRITERS = (b"1" * 16, b"2" * 16)
EVENTS = [event(bytes((65 + at,)) * (at % 5 if at % 7 else 3000)) for at in range(150)]
"""What every writer writes, from the first to the last: a resend has the same events at the same offsets."""
PLACES = list(accumulate(map(len, EVENTS), initial=0))


class World:
    """The events of each segment, the levels of writers there, and the segments that writers are set up for."""

    def __init__(self) -> None:
        self.segments: dict[str, list[bytes]] = {}
        self.levels: dict[tuple[str, bytes], int] = {}
        self.setups: dict[tuple[int, bytes], str] = {}


class Pravega(Speaker):
    """Blocks that follow on each other, come again, overlap, and leave gaps; and reads of what is there."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._next: dict[bytes, int] = dict.fromkeys(WRITERS, 0)

    @classmethod
    def factory(cls, core: Core) -> PravegaFactory:
        return PravegaFactory(core, PravegaSettings(10.0))

    def world(self) -> World:
        return World()

    def opening(self, number: int) -> list[Ask]:
        setups = [self._setup("s", writer) for writer in WRITERS]
        # With something in it, so that no read waits at the tail: such a one is answered out of turn.
        return setups if number else [self._create("s"), *setups, self._block(WRITERS[0], 0, 1)]

    def ask(self, number: int) -> Ask:
        random = self.random
        name, writer = random.choice(NAMES), random.choice(WRITERS)
        match random.choice(("create", "setup", *["block"] * 8, *["read"] * 3, "alive")):
            case "create":
                return self._create(name)
            case "setup":
                return self._setup(name, writer)
            case "block":
                return self._some_block(writer)
            case "read":
                place = random.choice((0, 0, 5, 20))
                return self._read(random.choice(("s", "s", "none")), place, random.choice((1, 30, 2000)))
            case _:
                alive = message(Type.KEEP_ALIVE, random.randbytes(3))
                return Ask(alive, lambda world, _: alive, "alive")

    @classmethod
    def comparable(cls, told: bytes) -> bytes:
        return Law.comparable(told)

    @classmethod
    def begins(cls, told: bytes, said: bytes) -> bool:
        # The last acknowledgement may be one with those that follow.
        begun = cls.comparable(said)
        size = len(appended(0))
        if begun[-size:][: HEADER.size] == HEADER.pack(Type.DATA_APPENDED, size - HEADER.size):
            begun = begun[:-size]
        return told.startswith(begun)

    def stored(self, world: World) -> dict[str, list[bytes]]:
        return {name: [each[HEADER.size :] for each in events] for name, events in world.segments.items()}

    def _create(self, name: str) -> Ask:
        def act(world: World, number: int) -> bytes:
            if name in world.segments:
                return message(Type.SEGMENT_EXISTS, text(name))
            world.segments[name] = []
            return created(name)

        return Ask(create(name), act, f"create-{name}")

    def _setup(self, name: str, writer: bytes) -> Ask:
        def act(world: World, number: int) -> bytes:
            if name not in world.segments:
                return message(Type.NO_SUCH_SEGMENT, text(name))
            world.setups[number, writer] = name
            return ready(name, world.levels.get((name, writer), 0), writer)

        return Ask(setup(name, writer), act, f"setup-{name}-{writer[:1].decode()}")

    def _some_block(self, writer: bytes) -> Ask:
        random = self.random
        first = self._next[writer]
        if random.random() < 0.4:
            first = max(0, first - random.randrange(5))
        elif random.random() < 0.03:
            first += 1
        return self._block(writer, first, first + random.randrange(4))

    def _block(self, writer: bytes, first: int, end: int) -> Ask:
        self._next[writer] = max(self._next[writer], end)
        data = b"".join(EVENTS[first:end])
        promised = self.random.choice((None, None, None, len(data) + 7, len(data) // 2))

        def act(world: World, number: int) -> bytes:
            name = world.setups[number, writer]
            level = world.levels.get((name, writer), 0)
            if PLACES[first] > level:
                raise Closed
            if PLACES[end] > level:
                world.segments[name] += EVENTS[PLACES.index(level) : end]
                level = world.levels[name, writer] = PLACES[end]
            return appended(level, writer)

        return Ask(block(PLACES[first], data, promised, writer), act, f"block-{writer[:1].decode()}-{first}-{end}")

    def _read(self, name: str, offset: int, length: int) -> Ask:
        def act(world: World, number: int) -> bytes:
            if name not in world.segments:
                return message(Type.NO_SUCH_SEGMENT, text(name))
            data = b"".join(world.segments[name])
            part = data[offset : offset + length]
            return segment_read(name, offset, part, tail=offset + len(part) >= len(data))

        return Ask(read(name, offset, length), act, f"read-{name}-{offset}")
