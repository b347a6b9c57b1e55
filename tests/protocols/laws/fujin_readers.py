"""Fujin's readers for the laws: subscribers and consumers, with and without acknowledgements, alone and in a group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import pack
from typing import ClassVar

from streamd.batch import Batch
from streamd.connections.core import Core
from streamd.protocols.fujin.factory import FujinFactory
from streamd.protocols.fujin.settings import configure
from streamd.wire import fujin_replies as replies
from streamd.wire.client import fujin as client
from streamd.wire.fujin import TOPIC_BYTES_MAX, Opcode
from streamd.wire.fujin_replies import Code, Reply
from tests.protocols.laws.description import Breach, Description, Exchange, Size
from tests.protocols.laws.fujin import TOPIC_TOO_LARGE, Fujin, FujinElsewhere, answer, declared, frames
from tests.rigs.protocols.fujin_case import FujinRig

RECORDS = [b"one", b"", b"three", b"four"]
NEVER = 1 << 60
"""The number of a message that nobody ever has."""


def split(told: bytes, meta_bytes: int) -> tuple[list[bytes], list[bytes]]:
    """The replies and the messages of a stream, each in their order: how the two mix is a matter of time."""
    found = frames(told, meta_bytes)
    return [each for each in found if each[0] != Reply.MESSAGE], [each for each in found if each[0] == Reply.MESSAGE]


class FujinReader(Description):
    """What readers have in common. It reads the topic ``law``, by a name that the settings know."""

    consumer: ClassVar[bool]
    auto: ClassVar[bool]
    group: ClassVar[str]

    name = "fujin"
    segment = "law"
    names = ["law"]
    rig = FujinRig
    writer = Fujin
    bystander = FujinElsewhere
    stop = Fujin.stop
    furnished = RECORDS
    unread_code = Code.STORE_FAILED
    sizes = [
        Size(
            "name",
            lambda value: b"\2" + pack(">I", value),
            TOPIC_BYTES_MAX,
            1 << 32,
            replies.reader_connected(False, 0, Code.TOO_LARGE, TOPIC_TOO_LARGE),
        )
    ]
    record_bytes_max = Fujin.record_bytes_max

    def __init_subclass__(cls) -> None:
        cls.consumes = bool(cls.group)
        cls.endless = not cls.consumer
        connected = replies.reader_connected(cls.auto, cls.meta_bytes())
        cls.hello = Exchange(client.connect_reader("reader", consumer=cls.consumer), connected)
        cls.transcript = cls._conversation()
        cls.breaches = [
            Breach(b"\0", code=Code.UNKNOWN_OPCODE),
            Breach(client.connect_writer(1), code=Code.OUT_OF_PLACE),
            Breach(cls.hello.asked, code=Code.OUT_OF_PLACE),
            Breach(declared(1), code=Code.OUT_OF_PLACE),
            Breach(client.commit(1), code=Code.OUT_OF_PLACE),
            *[Breach(client.fetch(1), code=Code.OUT_OF_PLACE)] * (not cls.consumer),
        ]
        cls.begun = [b"\x09", cls.ack(1, 0)[:-1], *[client.fetch(1)[:-1]] * cls.consumer]
        auto = str(cls.auto).lower()
        cls.settings = (
            f'{Fujin.settings}[fujin.readers.reader]\ntopic = "law"\ngroup = "{cls.group}"\nauto_commit = {auto}\n'
        )

    @classmethod
    def factory(cls, core: Core) -> FujinFactory:
        reader = {"topic": "law", "group": cls.group, "auto_commit": cls.auto}
        return FujinFactory(
            core, configure({"readers": {"reader": reader}, "stop_seconds_max": core.limits.drain_seconds_max})
        )

    @classmethod
    def unknown(cls) -> Iterable[tuple[bytes, bytes, bool]]:
        allowed = {Opcode.ACK, Opcode.NACK, Opcode.DISCONNECT, *[Opcode.FETCH] * cls.consumer}
        for opcode in set(range(256)) - allowed:
            yield bytes((opcode,)), b"", False

    @classmethod
    def comparable(cls, told: bytes) -> bytes:
        return b"".join([part for parts in split(told, cls.meta_bytes()) for part in parts])

    @classmethod
    def without_stop(cls, told: bytes) -> bytes:
        return b"".join([each for each in frames(told, cls.meta_bytes()) if each != replies.STOP])

    @classmethod
    def given(cls, told: bytes) -> int:
        return len(split(told, cls.meta_bytes())[1]) if cls.auto and cls.group else 0

    @classmethod
    def acknowledged(cls, told: bytes) -> int:
        answers = split(told, cls.meta_bytes())[0]
        found = 0
        for count, exchange in enumerate(cls.transcript, 1):
            wanted = split(exchange.told, cls.meta_bytes())[0]
            if answers[: len(wanted)] != wanted:
                break
            # A FETCH has no answer: where what follows it has one, it was carried out.
            found = count if wanted and answers else found
            answers = answers[len(wanted) :]
        assert not answers, "other answers than expected"
        return found

    @classmethod
    def waits(cls, exchange: Exchange) -> bool:
        # With auto commit a message counts as acknowledged when it is sent, and nobody waits for the disk.
        return not cls.auto

    @classmethod
    def meta_bytes(cls) -> int:
        return 0 if cls.auto else 8

    @classmethod
    def ack(cls, id: int, number: int, *, back: bool = False) -> bytes:
        return client.acknowledge(id, b"" if cls.auto else pack(">Q", number), back=back)

    @classmethod
    def messages(cls, records: Sequence[bytes], first: int = 0) -> bytes:
        return replies.messages(Batch.of(records), None if cls.auto else first) if records else b""

    @classmethod
    def _conversation(cls) -> list[Exchange]:
        """Everything that a reader can say.

        A message that a consumer gives back comes again with the next one that it fetches. To a subscriber it would
        come at a time of its own, which no law could tell.
        """

        def send(count: int, first: int, asked: bytes = b"", reply: bytes = b"") -> Exchange:
            asked += client.fetch(count) if cls.consumer else b""
            return Exchange(asked, reply + cls.messages(RECORDS[first : first + count], first))

        def acked(id: int, number: int) -> Exchange:
            return Exchange(cls.ack(id, number), answer(Reply.ACKNOWLEDGED, id))

        back = Exchange(cls.ack(3, 1, back=True), answer(Reply.GIVEN_BACK, 3))
        unknown = Exchange(cls.ack(5, NEVER), cls._never(Reply.ACKNOWLEDGED, 5))
        if not cls.consumer:
            everything = Exchange(cls.hello.asked, cls.hello.told + cls.messages(RECORDS))
            back = Exchange(cls.ack(3, NEVER, back=True), cls._never(Reply.GIVEN_BACK, 3))
            return [everything, acked(1, 2), back, acked(4, 0), unknown, acked(6, 0)]
        following = 2 if cls.auto else 1
        return [
            cls.hello,
            Exchange(client.fetch(0), b""),
            send(2, 0),
            acked(1, 0),
            back,
            send(1, following),
            acked(4, following),
            unknown,
            acked(6, 0),
            Exchange(client.fetch(9), cls.messages(RECORDS[following + 1 :], following + 1)),
            acked(7, 3),
        ]

    @classmethod
    def _never(cls, reply: Reply, id: int) -> bytes:
        if cls.auto:
            return answer(reply, id)
        return answer(reply, id, Code.NOT_DELIVERED, f"message {NEVER} is not out")

    def prepare(self) -> Exchange:
        return Exchange(b"", b"")

    def open(self) -> Exchange:
        # It connects when it fetches: a subscriber is sent all there is.
        return Exchange(b"", b"")

    def ask(self) -> Exchange:
        return Exchange(self.ack(1, NEVER), self._never(Reply.ACKNOWLEDGED, 1))

    def write(self, record: bytes) -> Exchange:
        raise NotImplementedError("a reader's stream does not write")

    def fetch(self, records: Sequence[bytes]) -> Exchange:
        fetched = client.fetch(len(records)) if self.consumer else b""
        return Exchange(self.hello.asked + fetched, self.hello.told + self.messages(records))


class FujinSubscriber(FujinReader):
    """Is sent what there is, and that is all."""

    consumer, auto, group = False, True, "g"


class FujinConsumer(FujinReader):
    """Is sent what it fetches."""

    consumer, auto, group = True, True, "g"


class FujinAcknowledgingSubscriber(FujinReader):
    """Is sent what there is, and acknowledges it."""

    consumer, auto, group = False, False, "g"


class FujinAcknowledgingConsumer(FujinReader):
    """Is sent what it fetches, and acknowledges it."""

    consumer, auto, group = True, False, "g"


class FujinLoneSubscriber(FujinReader):
    """Is sent everything, whoever else reads."""

    consumer, auto, group = False, True, ""


class FujinLoneConsumer(FujinReader):
    """Fetches everything, whoever else reads, and acknowledges it."""

    consumer, auto, group = True, False, ""


READERS: Sequence[type[FujinReader]] = (
    FujinSubscriber,
    FujinConsumer,
    FujinAcknowledgingSubscriber,
    FujinAcknowledgingConsumer,
    FujinLoneSubscriber,
    FujinLoneConsumer,
)
