"""SESP for the mixes."""

from __future__ import annotations

from streamd.connections.core import Core
from streamd.protocols.sesp import SespFactory
from tests.protocols.mixes.machinery import Ask, Speaker

NAMES = ("a", "b", "c")


class Topic:
    """Messages, and how many were there before them."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.first = 0
        self.sealed = False
        self.deleted = False


class World:
    """Topics by name, and for each connection the topic that it has selected and where it reads."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.selected: dict[int, Topic] = {}
        self.offsets: dict[int, int] = {}


class Sesp(Speaker):
    """Commands for three topics, which come and go."""

    @classmethod
    def factory(cls, core: Core) -> SespFactory:
        return SespFactory(core)

    def world(self) -> World:
        return World()

    def opening(self, number: int) -> list[Ask]:
        # A first line that does not end with a carriage return: this is no telnet.
        plain = [self._command("|", "")]
        # Mostly with a topic: who has none gets errors, and nothing else.
        return plain if self.random.random() < 0.3 else [*plain, self._command("#", "a"), self._command("@", "a")]

    def ask(self, number: int) -> Ask:
        random = self.random
        name = random.choice(NAMES)
        action = random.choice("#!@@$$<<<<<<<>>>>>>>>>>=%?|")
        if action == ">":
            argument = random.choice(("", "x", f"m{random.randrange(1000)}", "long" * random.choice((1, 500, 4000))))
        elif action in "$%":
            argument = str(random.choice((-1, 0, 0, 1, 2, 5, 100)))
        else:
            argument = name if action in "#!@=" else ""
        return self._command(action, argument)

    def _command(self, action: str, argument: str) -> Ask:
        act = getattr(self, f"_{_METHODS[action]}")
        line = f"{action}{argument}"
        return Ask(f"{line}\n".encode(), lambda world, number: act(world, number, argument), line[:10])

    def stored(self, world: World) -> dict[str, list[bytes]]:
        return {name: topic.messages for name, topic in world.topics.items()}

    def _create(self, world: World, number: int, name: str) -> bytes:
        if name in world.topics:
            return b"-AlreadyExists\n"
        world.topics[name] = Topic()
        return b"+\n"

    def _delete(self, world: World, number: int, name: str) -> bytes:
        if name not in world.topics:
            return b"-NoSuchTopicExists\n"
        world.topics.pop(name).deleted = True
        return b"+\n"

    def _select(self, world: World, number: int, name: str) -> bytes:
        if number in world.selected:
            return b"-TopicAlreadySelected\n"
        if name not in world.topics:
            return b"-NoSuchTopicExists\n"
        world.selected[number] = world.topics[name]
        return b"+\n"

    def _seek(self, world: World, number: int, offset: str) -> bytes:
        if int(offset) < 0:
            return b"-ReadOffsetCanNotBeNegative\n"
        world.offsets[number] = int(offset)
        return b"+\n"

    def _read(self, world: World, number: int, _: str) -> bytes:
        topic = world.selected.get(number)
        if topic is None:
            return b"-NoTopicSelected\n"
        if topic.deleted:
            return b"-NoSuchTopicExists\n"
        offset = world.offsets.get(number, 0)
        if offset < topic.first:
            return b"-OffsetTruncated\n"
        if offset >= topic.first + len(topic.messages):
            return b"-None\n"
        world.offsets[number] = offset + 1
        return b"+%b\n" % topic.messages[offset - topic.first]

    def _publish(self, world: World, number: int, message: str) -> bytes:
        topic = world.selected.get(number)
        if topic is None:
            return b"-NoTopicSelected\n"
        if topic.deleted:
            return b"-NoSuchTopicExists\n"
        if topic.sealed:
            return b"-TopicSealed\n"
        topic.messages.append(message.encode())
        return b"+\n"

    def _seal(self, world: World, number: int, name: str) -> bytes:
        if name not in world.topics:
            return b"-NoSuchTopicExists\n"
        world.topics[name].sealed = True
        return b"+\n"

    def _truncate(self, world: World, number: int, offset: str) -> bytes:
        topic = world.selected.get(number)
        if topic is None:
            return b"-NoTopicSelected\n"
        if int(offset) < 0:
            return b"-ReadOffsetCanNotBeNegative\n"
        if topic.deleted:
            return b"-NoSuchTopicExists\n"
        dropped = min(max(0, int(offset) - topic.first), len(topic.messages))
        del topic.messages[:dropped]
        topic.first += dropped
        return b"+\n"

    def _list(self, world: World, number: int, _: str) -> bytes:
        names = ", ".join(f'"{name}"' for name in world.topics)
        return f"+[{names}]\n".encode()

    def _unknown(self, world: World, number: int, _: str) -> bytes:
        return b"-InvalidCommand\n"


_METHODS = {
    "#": "create",
    "!": "delete",
    "@": "select",
    "$": "seek",
    "<": "read",
    ">": "publish",
    "=": "seal",
    "%": "truncate",
    "?": "list",
    "|": "unknown",
}
