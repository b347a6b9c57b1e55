"""Simple Message Queue for the mixes."""

from __future__ import annotations

from streamd.connections.core import Core
from streamd.protocols.smq import SmqFactory, SmqSettings
from streamd.wire.smq import EMPTY, PUSHED, REFUSED
from tests.protocols.mixes.machinery import Ask, Speaker
from tests.rigs.wire.smq import STR, pull, push


class World:
    """The queue: each message as it is pulled, and its data."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, bytes]] = []
        self.made = False


class Smq(Speaker):
    """Pushes, right and wrong, and pulls of one queue."""

    @classmethod
    def factory(cls, core: Core) -> SmqFactory:
        return SmqFactory(core, SmqSettings())

    def world(self) -> World:
        return World()

    def opening(self, number: int) -> list[Ask]:
        return []

    def ask(self, number: int) -> Ask:
        random = self.random
        if random.random() < 0.45:
            return Ask(pull(random.choice((b"", b"", b"a body"))), self._pull, "pull")
        kind, count, data = random.choice(
            (
                (0, 3, b"abc"),
                (0, 1, b"%c" % random.randrange(256)),
                (9, 2, random.randbytes(16)),
                (STR, 2, b"one\0two\0"),
                (STR, 0, b""),
                (0, 9000, random.randbytes(9000)),
                (0, 2, b"wrong"),
                (STR, 1, b"no end"),
            )
        )
        message = push(kind, count, data)
        if data in (b"wrong", b"no end"):
            return Ask(message, lambda world, number: REFUSED, "wrong")

        def stored(world: World, number: int) -> bytes:
            world.made = True
            world.messages.append((message, data))
            return PUSHED

        return Ask(message, stored, "push")

    def _pull(self, world: World, number: int) -> bytes:
        return world.messages.pop(0)[0] if world.messages else EMPTY

    def stored(self, world: World) -> dict[str, list[bytes]]:
        return {"smq": [data for _, data in world.messages]} if world.made else {}
