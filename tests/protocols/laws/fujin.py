"""Fujin for the laws: the streams of writers, alone and in transactions. Readers are in `fujin_readers`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import pack

from streamd.connections.core import Core
from streamd.protocols.fujin.factory import FujinFactory
from streamd.protocols.fujin.settings import FujinSettings
from streamd.wire import fujin_replies as replies
from streamd.wire.client import fujin as client
from streamd.wire.fujin import TOPIC_BYTES_MAX, Opcode
from streamd.wire.fujin_replies import Code, Reply
from tests.protocols.laws.description import LIMITS, Breach, Description, Exchange, Size
from tests.rigs.protocols.fujin_case import FujinRig

TOPIC_TOO_LARGE = f"a topic has at most {TOPIC_BYTES_MAX} bytes"
_MESSAGE_TOO_LARGE = f"a message has at most {LIMITS.message_bytes_max} bytes"
_CONNECT = client.connect_writer(1)


def answer(reply: Reply, id: int, code: int = 0, text: str = "") -> bytes:
    """One answer with room for an error."""
    return replies.answers(reply, pack(">I", id), code, text)


def told(reply: Reply, id: int) -> bytes:
    """One answer without."""
    return replies.transaction(reply, pack(">I", id))


def written(id: int, code: int = 0, text: str = "") -> bytes:
    """The answer to WRITE."""
    return answer(Reply.WRITTEN, id, code, text)


def declared(topic_bytes: int | None, message_bytes: int = 0) -> bytes:
    """A write up to one of its two sizes. Its topic can't be one: where nothing is to follow, it is not stored."""
    if topic_bytes is not None:
        return b"\4" + pack(">II", 9, topic_bytes)
    return b"\4" + pack(">II", 9, 1) + b"\0" + pack(">I", message_bytes)


def frames(told: bytes, meta_bytes: int = 0) -> list[bytes]:
    """What is told on a stream, one by one."""
    found: list[bytes] = []
    while told:
        kind = told[0]
        if kind == Reply.MESSAGE:
            stop = 1 + meta_bytes + 4
            stop += int.from_bytes(told[stop - 4 : stop], "big")
        elif kind in (Reply.DISCONNECTED, Reply.STOP):
            stop = 1
        elif kind in (Reply.BEGUN, Reply.COMMITTED, Reply.ROLLED_BACK):
            stop = 5
        else:
            stop = 4 if kind == Reply.READER_CONNECTED else 6
            if told[stop - 1]:
                stop += 4 + int.from_bytes(told[stop : stop + 4], "big")
        found.append(told[:stop])
        told = told[stop:]
    return found


class Fujin(Description):
    """Commands without delimiters, with two sizes that are uint32. It reads on other streams than it writes on."""

    name = "fujin"
    segment = "law"
    rig = FujinRig
    hello = Exchange(_CONNECT, b"")
    stop = Exchange(client.DISCONNECT, replies.DISCONNECTED)
    settings = "stop_seconds_max = 2.0\n"
    transcript = [
        hello,
        Exchange(client.write(1, "s", b"one"), written(1)),
        Exchange(client.write(2, "s", b""), written(2)),
        Exchange(client.write(3, "s", b"three"), written(3)),
        Exchange(
            client.write(4, "", b"x"),
            written(4, Code.BAD_TOPIC, "the topic can't have this name: a name has 1 to 255 bytes, not 0"),
        ),
        Exchange(client.begin(5), told(Reply.BEGUN, 5)),
        Exchange(client.write(6, "s", b"four"), written(6)),
        Exchange(client.write(7, "t", b"other"), written(7)),
        Exchange(client.commit(8), told(Reply.COMMITTED, 8)),
        Exchange(client.begin(9), told(Reply.BEGUN, 9)),
        Exchange(client.write(10, "s", b"never"), written(10)),
        Exchange(client.rollback(11), told(Reply.ROLLED_BACK, 11)),
        Exchange(client.begin(12), told(Reply.BEGUN, 12)),
        Exchange(client.commit(13), told(Reply.COMMITTED, 13)),
        Exchange(client.write(14, "u", b"last"), written(14)),
    ]
    breaches = [
        Breach(b"\0", code=Code.UNKNOWN_OPCODE),
        Breach(_CONNECT, code=Code.OUT_OF_PLACE),
        Breach(client.fetch(1), code=Code.OUT_OF_PLACE),
        Breach(client.commit(1), code=Code.NO_TRANSACTION),
        Breach(client.rollback(1), code=Code.NO_TRANSACTION),
        Breach(client.begin(1) * 2, told(Reply.BEGUN, 1), Code.IN_TRANSACTION),
        Breach(
            declared(None, LIMITS.message_bytes_max + 1),
            written(9, Code.TOO_LARGE, _MESSAGE_TOO_LARGE),
            Code.TOO_LARGE,
        ),
        Breach(declared(TOPIC_BYTES_MAX + 1), written(9, Code.TOO_LARGE, TOPIC_TOO_LARGE), Code.TOO_LARGE),
    ]
    sizes = [
        Size(
            "topic",
            lambda value: _CONNECT + declared(value),
            TOPIC_BYTES_MAX,
            1 << 32,
            written(9, Code.TOO_LARGE, TOPIC_TOO_LARGE),
        ),
        Size(
            "message",
            lambda value: _CONNECT + declared(None, value),
            LIMITS.message_bytes_max,
            1 << 32,
            written(9, Code.TOO_LARGE, _MESSAGE_TOO_LARGE),
            least=1,
        ),
    ]
    record_bytes_max = LIMITS.message_bytes_max
    too_large = written(0, Code.TOO_LARGE, _MESSAGE_TOO_LARGE)
    begun = [b"\4", client.write(1, "law", b"whole")[:-1], client.write(1, "law", b"x")[:11], client.begin(1)[:-1]]

    @classmethod
    def factory(cls, core: Core) -> FujinFactory:
        return FujinFactory(core, FujinSettings(stop_seconds_max=core.limits.drain_seconds_max))

    @classmethod
    def unknown(cls) -> Iterable[tuple[bytes, bytes, bool]]:
        allowed = {Opcode.WRITE, Opcode.BEGIN, Opcode.COMMIT, Opcode.ROLLBACK, Opcode.DISCONNECT}
        for opcode in set(range(256)) - allowed:
            yield bytes((opcode,)), b"", False

    @classmethod
    def without_stop(cls, told: bytes) -> bytes:
        return b"".join([each for each in frames(told) if each != replies.STOP])

    @classmethod
    def answered(cls, told: bytes, expected: Sequence[bytes]) -> int:
        return super().answered(cls.without_stop(told), expected)

    def prepare(self) -> Exchange:
        return Exchange(b"", b"")

    def open(self) -> Exchange:
        return self.hello

    def ask(self) -> Exchange:
        # An empty transaction: there is nothing else that a writer asks and that changes nothing.
        return Exchange(client.begin(1) + client.rollback(2), told(Reply.BEGUN, 1) + told(Reply.ROLLED_BACK, 2))

    def write(self, record: bytes) -> Exchange:
        return Exchange(client.write(0, self.segment, record), written(0))

    def fetch(self, records: Sequence[bytes]) -> Exchange:
        raise NotImplementedError("a writer's stream does not read")


class FujinTransactions(Fujin):
    """Each record in a transaction of its own, which is answered when it is committed."""

    transcript = [
        Fujin.hello,
        Exchange(client.begin(1), told(Reply.BEGUN, 1)),
        Exchange(client.write(2, "s", b"one"), written(2)),
        Exchange(client.write(3, "t", b""), written(3)),
        Exchange(client.write(4, "s", b"three"), written(4)),
        Exchange(client.commit(5), told(Reply.COMMITTED, 5)),
        Exchange(client.begin(6), told(Reply.BEGUN, 6)),
        Exchange(
            client.write(7, "a\0", b"x"),
            written(7, Code.BAD_TOPIC, "the topic can't have this name: a name has no control characters"),
        ),
        Exchange(client.write(8, "u", b"other"), written(8)),
        Exchange(client.commit(9), told(Reply.COMMITTED, 9)),
        Exchange(client.begin(10), told(Reply.BEGUN, 10)),
        Exchange(client.write(11, "s", b"never"), written(11)),
        Exchange(client.rollback(12), told(Reply.ROLLED_BACK, 12)),
    ]
    too_large = told(Reply.BEGUN, 1) + Fujin.too_large

    def write(self, record: bytes) -> Exchange:
        asked, answer = super().write(record)
        return Exchange(
            client.begin(1) + asked + client.commit(2), told(Reply.BEGUN, 1) + answer + told(Reply.COMMITTED, 2)
        )


class FujinElsewhere(Fujin):
    """One that writes to a topic that nobody reads."""

    segment = "elsewhere"
