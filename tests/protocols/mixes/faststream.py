"""FastStreamDB for the mixes."""

from __future__ import annotations

from streamd.connections.core import Core
from streamd.protocols.faststream.protocol import FastStreamFactory
from streamd.wire.faststream import PONG, state
from tests.protocols.laws.faststream import CHECK, CREATE, DELETE, PEEK, TAKE, contents
from tests.protocols.mixes.machinery import Ask, Closed, Speaker
from tests.rigs.wire.faststream import PING, all_except, multiple, one, single, to_all

STREAMS = (1, 2, 3)
KINDS = (
    *("create", "delete", "many", "all", "but", "check", "ping", "break"),
    *("single", "take") * 4,
    *("peek",) * 3,
)
World = dict[int, list[bytes]]
"""What is in each stream."""


class FastStream(Speaker):
    """Packets for three streams, which come and go.

    With several connections nobody peeks: what one takes others see until it was handed over.
    """

    @classmethod
    def factory(cls, core: Core) -> FastStreamFactory:
        return FastStreamFactory(core)

    def world(self) -> World:
        return {}

    def opening(self, number: int) -> list[Ask]:
        self.alone = number == 0
        return [self._create(stream) for stream in STREAMS] if number == 0 else []

    def ask(self, number: int) -> Ask:
        random = self.random
        stream = random.choice(STREAMS)
        data = random.choice((b"", b"x", random.randbytes(9), random.randbytes(9) * random.choice((1, 100, 2000))))
        several = random.choices(STREAMS, k=random.randrange(4))
        match random.choice(KINDS):
            case "create":
                return self._create(stream)
            case "delete" if self.alone:
                return Ask(one(DELETE, stream), lambda world, _: _silent(world.pop(stream, None)), f"delete-{stream}")
            case "single":
                return Ask(single(stream, data), lambda world, _: _put(world, [stream], data), f"enqueue-{stream}")
            case "many":
                return Ask(multiple(data, *several), lambda world, _: _put(world, several, data), f"many-{several}")
            case "all":
                return Ask(to_all(data), lambda world, _: _put(world, list(world), data), "all")
            case "but":
                return Ask(
                    all_except(data, *several),
                    lambda world, _: _put(world, [each for each in world if each not in several], data),
                    f"all-but-{several}",
                )
            case "take":
                return Ask(one(TAKE, stream), lambda world, _: _take(world, stream), f"take-{stream}")
            case "peek" if self.alone:
                return Ask(one(PEEK, stream), lambda world, _: _peek(world, stream), f"peek-{stream}")
            case "check":
                return Ask(one(CHECK, stream), lambda world, _: state(stream, stream in world), f"check-{stream}")
            case "break" if random.random() < 0.2:
                return Ask(one(99, 0), _broken, "break")
            case _:
                return Ask(PING, lambda world, _: PONG, "ping")

    def stored(self, world: World) -> dict[str, list[bytes]]:
        return {f"faststream/{stream}": records for stream, records in world.items()}

    def _create(self, stream: int) -> Ask:
        return Ask(one(CREATE, stream), lambda world, _: _silent(world.setdefault(stream, [])), f"create-{stream}")


def _silent(_: object) -> bytes:
    return b""


def _put(world: World, streams: list[int], data: bytes) -> bytes:
    for stream in streams:
        if stream in world:
            world[stream].append(data)
    return b""


def _peek(world: World, stream: int) -> bytes:
    return contents(b"".join(world.get(stream, [])))


def _take(world: World, stream: int) -> bytes:
    taken = _peek(world, stream)
    if stream in world:
        world[stream] = []
    return taken


def _broken(world: World, number: int) -> bytes:
    raise Closed
