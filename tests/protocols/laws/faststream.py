"""FastStreamDB for the laws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import pack

from streamd.connections.core import Core
from streamd.protocols.faststream.protocol import FastStreamFactory
from streamd.wire.faststream import PONG, contents_header, state
from tests.protocols.laws.description import LIMITS, Breach, Description, Exchange, Size
from tests.rigs.wire.faststream import PING, all_except, multiple, one, single, to_all

CREATE, DELETE, TAKE, PEEK, CHECK = 1, 2, 7, 8, 9
_BYTES_MAX = LIMITS.message_bytes_max
_SOMETHING = bytes(500)


def contents(data: bytes) -> bytes:
    return contents_header(len(data)) + data


class FastStream(Description):
    """Packets whose sizes are u32, little endian; most are not answered."""

    name = "faststream"
    segment = "faststream/7"
    transcript = [
        Exchange(PING, PONG),
        Exchange(one(CHECK, 5), state(5, False)),
        Exchange(single(5, b"nobody there"), b""),
        Exchange(one(CREATE, 5), b""),
        Exchange(one(CHECK, 5), state(5, True)),
        Exchange(one(PEEK, 5), contents(b"")),
        Exchange(single(5, b"one"), b""),
        Exchange(single(5, b"two"), b""),
        Exchange(one(PEEK, 5), contents(b"onetwo")),
        Exchange(one(TAKE, 5), contents(b"onetwo")),
        Exchange(one(CREATE, 5), b""),
        Exchange(one(CREATE, 6), b""),
        Exchange(multiple(b"a", 5, 6, 6, 99), b""),
        Exchange(to_all(b"b"), b""),
        Exchange(all_except(b"c", 5), b""),
        Exchange(one(PEEK, 5), contents(b"ab")),
        Exchange(one(TAKE, 6), contents(b"aabc")),
        Exchange(one(DELETE, 5), b""),
        Exchange(one(CHECK, 5), state(5, False)),
        Exchange(one(DELETE, 5), b""),
        Exchange(one(TAKE, 5), contents(b"")),
        Exchange(single(6, b"last"), b""),
    ]
    breaches = [
        *[Breach(pack("<I", packet)) for packet in (10, 11, 12, 13, 1 << 31, (1 << 32) - 1)],
        Breach(pack("<III", 3, 6, _BYTES_MAX + 1)),
        Breach(pack("<II", 5, _BYTES_MAX + 1)),
    ]
    sizes = [
        Size("single", lambda value: pack("<III", 3, 7, value), _BYTES_MAX, 1 << 32, least=1),
        Size("multiple", lambda value: pack("<II", 4, value), _BYTES_MAX, 1 << 32),
        Size("all", lambda value: pack("<II", 5, value), _BYTES_MAX, 1 << 32, least=1),
        Size("all except", lambda value: pack("<II", 6, value), _BYTES_MAX, 1 << 32),
        Size("streams", lambda value: pack("<III", 4, 0, value), _BYTES_MAX // 4, 1 << 32, least=1),
        Size("exceptions", lambda value: pack("<III", 6, 0, value), _BYTES_MAX // 4, 1 << 32, least=1),
    ]
    record_bytes_max = LIMITS.message_bytes_max
    begun = [b"\0", one(CREATE, 5)[:-1], single(5, b"whole")[:-1], multiple(b"", 1, 2)[:-1], to_all(b"all")[:-1]]

    @classmethod
    def factory(cls, core: Core) -> FastStreamFactory:
        return FastStreamFactory(core)

    @classmethod
    def unknown(cls) -> Iterable[tuple[bytes, bytes, bool]]:
        for packet in [*range(10, 300), *[1 << bit for bit in range(9, 32)], (1 << 32) - 1]:
            yield pack("<I", packet), b"", False

    @classmethod
    def waits(cls, exchange: Exchange) -> bool:
        return exchange.asked[0] != TAKE

    def prepare(self) -> Exchange:
        return Exchange(one(CREATE, 7) + one(CREATE, 8) + single(8, _SOMETHING) + PING, PONG)

    def open(self) -> Exchange:
        return self.ask()

    def ask(self) -> Exchange:
        return Exchange(PING, PONG)

    def flood(self) -> Exchange:
        return Exchange(one(PEEK, 8), contents(_SOMETHING))

    def write(self, record: bytes) -> Exchange:
        # An enqueue is not answered. A ping behind it is, and not before it.
        return Exchange(single(7, record) + PING, PONG)

    def fetch(self, records: Sequence[bytes]) -> Exchange:
        return Exchange(one(PEEK, 7), contents(b"".join(records)))


class FastStreamTake(FastStream):
    """The same, where what is read is taken."""

    def fetch(self, records: Sequence[bytes]) -> Exchange:
        return Exchange(one(TAKE, 7), contents(b"".join(records)))
