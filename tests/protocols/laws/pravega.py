"""Pravega's append blocks for the laws."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from struct import pack

from streamd.connections.core import Core
from streamd.protocols.pravega.protocol import PravegaFactory, PravegaSettings
from streamd.wire.pravega.documented import BLOCK_BYTES_MAX, HEADER, MESSAGE_BYTES_MAX, Type, message
from tests.protocols.laws.description import LIMITS, Breach, Description, Exchange, Size
from tests.rigs.wire.pravega import OTHER, WRITER, begin, block, event, read, setup, text
from tests.rigs.wire.pravega import partial as part


def created(name: str) -> bytes:
    return message(Type.SEGMENT_CREATED, text(name))


def create(name: str) -> bytes:
    return message(Type.CREATE_SEGMENT, text(name))


def ready(name: str, level: int, writer: bytes = WRITER) -> bytes:
    return message(Type.APPEND_SETUP, text(name) + writer + level.to_bytes(8, "big"))


def appended(level: int, writer: bytes = WRITER) -> bytes:
    return message(Type.DATA_APPENDED, writer + level.to_bytes(8, "big"))


def segment_read(name: str, offset: int, data: bytes, *, tail: bool = True, end: bool = False) -> bytes:
    return message(Type.SEGMENT_READ, text(name) + offset.to_bytes(8, "big") + bytes((tail, end)) + data)


_FIRST = event(b"exact") + event(b"")
_PADDED = event(b"padded")
_SPLIT = event(b"first") + event(b"goes on behind the end")
_ALL = _FIRST + _PADDED + _SPLIT
_ALIVE = message(Type.KEEP_ALIVE, b"in pieces")
_TO_SERVER = (
    Type.PARTIAL,
    Type.SETUP_APPEND,
    Type.BEGIN_BLOCK,
    Type.READ_SEGMENT,
    Type.CREATE_SEGMENT,
    Type.KEEP_ALIVE,
)


def _message_size(kind: Type) -> Size:
    return Size(kind.name, partial(pack, ">ii", kind), MESSAGE_BYTES_MAX, 1 << 31, signed=True, least=1)


def unknown_kinds(known: Collection[int]) -> Iterator[tuple[bytes, bytes, bool]]:
    """Messages of kinds that no client sends, for `Description.unknown`: each ends the connection."""
    for kind in [*range(-200, 300), *[1 << bit for bit in range(9, 31)], (1 << 31) - 1, -(1 << 31)]:
        if kind not in known:
            yield HEADER.pack(kind, 0), b"", False


class Pravega(Description):
    """Messages whose length is an int32, and blocks between them."""

    name = "pravega"
    segment = "law"
    transcript = [
        Exchange(create("s"), created("s")),
        Exchange(create("s"), message(Type.SEGMENT_EXISTS, text("s"))),
        Exchange(setup("none"), message(Type.NO_SUCH_SEGMENT, text("none"))),
        Exchange(setup("s"), ready("s", 0)),
        Exchange(block(0, _FIRST), appended(21)),
        Exchange(block(21, _PADDED, promised=40), appended(35)),
        Exchange(block(35, _SPLIT, promised=20), appended(78)),
        Exchange(block(78, b""), appended(78)),
        Exchange(message(Type.KEEP_ALIVE, b""), message(Type.KEEP_ALIVE, b"")),
        Exchange(block(0, _FIRST), appended(78)),
        Exchange(setup("s", OTHER), ready("s", 0, OTHER)),
        Exchange(block(0, event(b"of another"), writer=OTHER), appended(18, OTHER)),
        Exchange(read("s", 7, 14), segment_read("s", 7, _ALL[7:21], tail=False)),
        Exchange(part(0, _ALIVE[:3]) + part(1, _ALIVE[3:10]) + part(2, _ALIVE[10:]), _ALIVE),
        Exchange(read("none", 0, 1), message(Type.NO_SUCH_SEGMENT, text("none"))),
        Exchange(read("s", 78, 100), segment_read("s", 78, event(b"of another"))),
        Exchange(block(78, event(b"last")), appended(90)),
    ]
    breaches = [
        Breach(event(b"outside of a block")),
        Breach(HEADER.pack(77, 0)),
        Breach(HEADER.pack(Type.KEEP_ALIVE, MESSAGE_BYTES_MAX + 1)),
        Breach(HEADER.pack(Type.KEEP_ALIVE, -1)),
        Breach(part(1, b"nothing begun")),
        Breach(setup("none") + block(90, b"no event"), message(Type.NO_SUCH_SEGMENT, text("none"))),
        Breach(begin(0, BLOCK_BYTES_MAX, b"never set up    ")),
        Breach(read("s", -1, 1)),
    ]
    sizes = [
        *map(_message_size, _TO_SERVER),
        Size(
            "block",
            lambda value: setup("none") + begin(0, 0)[:-4] + pack(">i", value),
            BLOCK_BYTES_MAX,
            1 << 31,
            message(Type.NO_SUCH_SEGMENT, text("none")),
            signed=True,
        ),
    ]
    record_bytes_max = LIMITS.message_bytes_max
    frame_bytes_max = BLOCK_BYTES_MAX
    begun = [
        b"\0",
        HEADER.pack(Type.KEEP_ALIVE, 5),
        setup("s")[:-1],
        part(0, b"begun"),
    ]
    begun_later = [
        begin(0, 9, bytes(16)),
        block(0, event(b"x"), writer=bytes(16))[:-1],
        block(0, event(b"x"), promised=3, writer=bytes(16))[:-1],
    ]

    @classmethod
    def factory(cls, core: Core) -> PravegaFactory:
        return PravegaFactory(core, PravegaSettings())

    @classmethod
    def unknown(cls) -> Iterable[tuple[bytes, bytes, bool]]:
        return unknown_kinds(_TO_SERVER)

    @classmethod
    def comparable(cls, told: bytes) -> bytes:
        """Acknowledgements are cumulative: of several in a row to one writer the last one says it all."""
        found: list[bytes] = []
        while told:
            kind, length = HEADER.unpack_from(told) if len(told) >= HEADER.size else (0, 0)
            answer, told = told[: HEADER.size + length], told[HEADER.size + length :]
            if kind == Type.DATA_APPENDED and found and found[-1][:-8] == answer[:-8]:
                found.pop()
            found.append(answer)
        return b"".join(found)

    @classmethod
    def answered(cls, told: bytes, expected: Sequence[bytes]) -> int:
        size = len(expected[0])
        last = told[: len(told) // size * size][-size:]
        return expected.index(last) + 1 if last else 0

    def __init__(self, number: int = 0) -> None:
        super().__init__(number)
        self._writer = number.to_bytes(16, "big")
        self._level = 0

    def prepare(self) -> Exchange:
        return Exchange(create("law"), created("law"))

    def open(self) -> Exchange:
        return Exchange(setup("law", self._writer), ready("law", 0, self._writer))

    def ask(self) -> Exchange:
        return Exchange(message(Type.KEEP_ALIVE, b""), message(Type.KEEP_ALIVE, b""))

    def flood(self) -> Exchange:
        alive = message(Type.KEEP_ALIVE, bytes(500))
        return Exchange(alive, alive)

    def write(self, record: bytes) -> Exchange:
        asked = block(self._level, event(record), writer=self._writer)
        self._level += HEADER.size + len(record)
        return Exchange(asked, appended(self._level, self._writer))

    def fetch(self, records: Sequence[bytes]) -> Exchange:
        asked: list[bytes] = []
        told: list[bytes] = []
        offset = 0
        for number, record in enumerate(records, 1):
            asked.append(read("law", offset, HEADER.size + len(record)))
            told.append(segment_read("law", offset, event(record), tail=number == len(records)))
            offset += HEADER.size + len(record)
        return Exchange(b"".join(asked), b"".join(told))
