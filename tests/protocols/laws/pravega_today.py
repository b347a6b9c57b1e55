"""Pravega as it is spoken today, for the laws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import pack

from streamd.connections.core import Core
from streamd.protocols.pravega.protocol import PravegaFactory, PravegaSettings
from streamd.wire.pravega.documented import HEADER, MESSAGE_BYTES_MAX
from streamd.wire.pravega.tables import REQUESTS as TABLES
from streamd.wire.pravega.today import REQUESTS
from tests.protocols.laws.description import LIMITS, Breach, Description, Exchange, Size
from tests.protocols.laws.pravega import unknown_kinds
from tests.rigs.wire.pravega_today import (
    HELLO,
    NEVER,
    WELCOME,
    append,
    appended,
    block,
    conditional,
    create,
    created,
    data,
    error,
    event,
    key,
    long,
    many,
    message,
    named,
    read,
    ready,
    segment_read,
    setup,
    text,
    truncate,
    update,
    updated,
    value,
)

_TO_SERVER = (*REQUESTS, *TABLES, 3, 4, 5, 89, 100)
_NAME = "s/t/0.#epoch.0"
_ALL = event(b"first") + event(b"second") + event(b"padded") + event(b"in parts")
_TABLE = "s/g_kvtable/0.#epoch.0"


def _message_size(kind: int) -> Size:
    return Size(
        f"message {kind}",
        lambda size: HELLO + pack(">ii", kind, size),
        MESSAGE_BYTES_MAX,
        1 << 31,
        WELCOME,
        signed=True,
        least=1,
    )


class PravegaToday(Description):
    """Messages whose length is an int32, behind Hello."""

    name = "pravega"
    segment = "law"
    transcript = [
        Exchange(HELLO, WELCOME),
        Exchange(create(_NAME), created(_NAME)),
        Exchange(create(_NAME), error(52, _NAME, id=1)),
        Exchange(setup("none"), error(53, "none", -1, id=2)),
        Exchange(setup(_NAME), ready(_NAME)),
        Exchange(append(2, _ALL[:27]), appended(2, NEVER, 27)),
        Exchange(block(3, event(b"padded"), message(-1, bytes(3)), b""), appended(3, 2, 41)),
        Exchange(block(4, b"", message(-2, event(b"in parts")[:10]), b" parts"), appended(4, 3, 57)),
        Exchange(conditional(5, 56, b"raw"), message(8, bytes(range(16)), long(5, 3))),
        Exchange(conditional(5, 57, b"raw"), appended(5, 4, 60)),
        Exchange(message(100, b"alive"), message(100, b"alive")),
        Exchange(setup(_NAME), ready(_NAME, 5)),
        Exchange(read(_NAME, 3, 30), segment_read(_NAME, 3, _ALL[3:33], tail=False)),
        Exchange(read(_NAME, 33, 100), segment_read(_NAME, 33, _ALL[33:] + b"raw")),
        Exchange(read("none", 0, 1), error(53, "none", -1, id=4)),
        Exchange(message(34, long(5), text(_NAME), bytes(16), text("")), message(35, long(5, NEVER))),
        Exchange(message(36, long(5), text(_NAME), bytes(16), long(7, NEVER), text("")), message(37, long(5), b"\1")),
        Exchange(message(36, long(5), text(_NAME), bytes(16), long(8, 6), text("")), message(37, long(5), b"\0")),
        Exchange(message(34, long(5), text(_NAME), bytes(16), text("")), message(35, long(5, 7))),
        Exchange(message(41, long(5), text(_NAME), long(14), text("")), message(42, long(5), text(_NAME), long(27))),
        Exchange(truncate(_NAME, 15), message(39, long(5), text(_NAME))),
        Exchange(read(_NAME, 14, 1), message(56, long(4), text(_NAME), long(15), text(""), long(14))),
        Exchange(read(_NAME, 15, 12), segment_read(_NAME, 15, _ALL[15:27], tail=False)),
        Exchange(message(70, long(5), text(_TABLE), text("")), created(_TABLE, 5)),
        Exchange(update(_TABLE, (b"k", -1, b"one"), (b"l", NEVER, b"two")), updated(0, 1)),
        Exchange(update(_TABLE, (b"k", -1, b"again")), message(82, long(6), text(_TABLE), text(""))),
        Exchange(update(_TABLE, (b"k", 0, b"three")), updated(2)),
        Exchange(
            message(78, long(6), text(_TABLE), text(""), many(key(b"k"), key(b"none"))),
            message(
                79, long(6), text(_TABLE), many(key(b"k", 2), value(b"three"), key(b"none", -1), value(b""), each=2)
            ),
        ),
        Exchange(
            message(76, long(6), text(_TABLE), text(""), many(key(b"l", 1)), long(-1)),
            message(77, long(6), text(_TABLE)),
        ),
        Exchange(
            message(83, long(6), text(_TABLE), text(""), pack(">i", 10), data(b"")),
            message(84, long(6), text(_TABLE), many(key(b"k", 2)), data(long(4))),
        ),
        Exchange(
            message(88, long(6), text(_TABLE), text(""), long(1), pack(">i", 10)),
            message(
                87,
                long(6),
                text(_TABLE),
                many(key(b"l", 1), value(b"two"), key(b"k", 2), value(b"three"), each=2),
                b"\0\1",
                long(4),
            ),
        ),
        Exchange(setup(_TABLE, b"another writer  "), error(53, _TABLE, -1, id=2)),
        Exchange(named(28, _NAME), message(29, long(5), text(_NAME))),
        Exchange(append(9, event(b"late")), error(51, _NAME, -1, id=3)),
        Exchange(read(_NAME, 60, 10), segment_read(_NAME, 60, b"", end=True)),
    ]
    hello = Exchange(HELLO, WELCOME)
    breaches = [
        Breach(event(b"outside of a block")),
        Breach(HEADER.pack(77, 0)),
        Breach(HEADER.pack(100, MESSAGE_BYTES_MAX + 1)),
        Breach(HEADER.pack(100, -1)),
        Breach(append(1, event(b"x"), b"never set up    ")),
        Breach(message(3, bytes(16)) + message(100)),
        Breach(read("s", -1, 1)),
        Breach(message(9, b"\0")),
    ]
    sizes = [*map(_message_size, sorted(_TO_SERVER))]
    record_bytes_max = LIMITS.message_bytes_max
    repeatable = False
    frame_bytes_max = MESSAGE_BYTES_MAX
    begun = [b"\0", HEADER.pack(100, 5), setup("s")[:-1], message(3, bytes(16), b"a block")]

    @classmethod
    def factory(cls, core: Core) -> PravegaFactory:
        return PravegaFactory(core, PravegaSettings(writer_seconds_max=0.0))

    @classmethod
    def unknown(cls) -> Iterable[tuple[bytes, bytes, bool]]:
        return unknown_kinds(_TO_SERVER)

    @classmethod
    def comparable(cls, told: bytes) -> bytes:
        """How long a segment is when an append is stored depends on who else writes to it."""
        found: list[bytes] = []
        while told:
            kind, length = HEADER.unpack_from(told) if len(told) >= HEADER.size else (0, 0)
            answer, told = told[: HEADER.size + length], told[HEADER.size + length :]
            found.append(answer[:-8] if kind == 7 else answer)
        return b"".join(found)

    @classmethod
    def answered(cls, told: bytes, expected: Sequence[bytes]) -> int:
        size = len(expected[0])
        whole = told[: len(told) // size * size]
        return super().answered(cls.comparable(whole), [cls.comparable(each) for each in expected])

    def is_unread(self, records: Sequence[bytes], bad: int, told: bytes, closed: bool) -> bool:
        """Each read is answered: with its record, or in words."""
        right = self.fetch(records)
        for asked in range(len(records)):
            answer, told = (
                told[: HEADER.size + HEADER.unpack_from(told)[1]],
                told[HEADER.size + HEADER.unpack_from(told)[1] :],
            )
            if HEADER.unpack_from(answer)[0] != 61 and (asked == bad or answer not in right.told):
                return False
        return not told and not closed

    def __init__(self, number: int = 0) -> None:
        super().__init__(number)
        self._writer = number.to_bytes(16, "big")
        self._number = 0
        self._length = 0

    def prepare(self) -> Exchange:
        return Exchange(HELLO + create("law"), WELCOME + created("law"))

    def open(self) -> Exchange:
        return Exchange(HELLO + setup("law", self._writer), WELCOME + ready("law", NEVER, self._writer))

    def ask(self) -> Exchange:
        return Exchange(message(100), message(100))

    def flood(self) -> Exchange:
        alive = message(100, bytes(500))
        return Exchange(alive, alive)

    def write(self, record: bytes) -> Exchange:
        previous = self._number or NEVER
        self._number += 1
        self._length += HEADER.size + len(record)
        asked = append(self._number, event(record), self._writer)
        return Exchange(asked, appended(self._number, previous, self._length, self._writer))

    def fetch(self, records: Sequence[bytes]) -> Exchange:
        asked: list[bytes] = []
        told: list[bytes] = []
        offset = 0
        for number, record in enumerate(records, 1):
            asked.append(read("law", offset, HEADER.size + len(record)))
            told.append(segment_read("law", offset, event(record), tail=number == len(records)))
            offset += HEADER.size + len(record)
        return Exchange(b"".join(asked), b"".join(told))
