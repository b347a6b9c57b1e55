"""Fujin for the laws: the stream of a writer, as it goes on behind CONNECT WRITER."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import pack

from streamd.interfaces import Core
from streamd.protocols.fujin import FujinFactory, FujinProtocol, FujinSettings
from streamd.wire import fujin_client as client
from streamd.wire import fujin_replies as replies
from streamd.wire.fujin import TOPIC_BYTES_MAX, Opcode
from streamd.wire.fujin_replies import Code, Reply
from tests.protocols.laws.description import LIMITS, Breach, Description, Exchange, Size

_MESSAGE_TOO_LARGE = f"a message has at most {LIMITS.message_bytes_max} bytes"
_TOPIC_TOO_LARGE = f"a topic has at most {TOPIC_BYTES_MAX} bytes"


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


class _Connected(FujinFactory):
    """Streams that have said that they are a writer's."""

    def build(self) -> FujinProtocol:
        protocol = super().build()
        protocol.codec.receive(client.connect_writer(1))
        return protocol


class Fujin(Description):
    """Commands without delimiters, with two sizes that are uint32. It reads on other streams than it writes on."""

    name = "fujin"
    segment = "law"
    transcript = [
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
        Breach(b"\0"),
        Breach(client.connect_writer(1)),
        Breach(client.fetch(1)),
        Breach(client.commit(1)),
        Breach(client.rollback(1)),
        Breach(client.begin(1) * 2, told(Reply.BEGUN, 1)),
        Breach(declared(None, LIMITS.message_bytes_max + 1), written(9, Code.TOO_LARGE, _MESSAGE_TOO_LARGE)),
        Breach(declared(TOPIC_BYTES_MAX + 1), written(9, Code.TOO_LARGE, _TOPIC_TOO_LARGE)),
    ]
    sizes = [
        Size(
            "topic",
            declared,
            TOPIC_BYTES_MAX,
            1 << 32,
            written(9, Code.TOO_LARGE, _TOPIC_TOO_LARGE),
        ),
        Size(
            "message",
            lambda value: declared(None, value),
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
        return _Connected(core, FujinSettings())

    @classmethod
    def unknown(cls) -> Iterable[tuple[bytes, bytes, bool]]:
        allowed = {Opcode.WRITE, Opcode.BEGIN, Opcode.COMMIT, Opcode.ROLLBACK, Opcode.DISCONNECT}
        for opcode in set(range(256)) - allowed:
            yield bytes((opcode,)), b"", False

    def prepare(self) -> Exchange:
        return self.ask()

    def open(self) -> Exchange:
        return self.ask()

    def ask(self) -> Exchange:
        # An empty transaction: there is nothing else that a writer asks and that changes nothing.
        return Exchange(client.begin(1) + client.rollback(2), told(Reply.BEGUN, 1) + told(Reply.ROLLED_BACK, 2))

    def flood(self) -> Exchange:
        return self.ask()

    def write(self, record: bytes) -> Exchange:
        return Exchange(client.write(0, self.segment, record), written(0))

    def fetch(self, records: Sequence[bytes]) -> Exchange:
        raise NotImplementedError("a writer's stream does not read")
