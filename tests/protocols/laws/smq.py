"""Simple Message Queue for the laws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import pack

from streamd.connections.core import Core
from streamd.protocols.smq import SmqFactory, SmqSettings
from streamd.wire.smq import EMPTY, PULL, PUSHED, REFUSED, whole_replies
from tests.protocols.laws.description import LIMITS, Breach, Description, Exchange, Size
from tests.rigs.wire.smq import STR, pull, push

_BODY_BYTES_MAX = 5 + LIMITS.message_bytes_max
_BYTES = push(0, 3, b"abc")
_FLOATS = push(9, 1, bytes(range(8)))
_WORDS = push(STR, 2, b"one\0two\0")


class Smq(Description):
    """Frames whose size is a u64."""

    name = "smq"
    consumes = True
    segment = "smq"
    transcript = [
        Exchange(pull(), EMPTY),
        Exchange(_BYTES, PUSHED),
        Exchange(_FLOATS, PUSHED),
        Exchange(pull(), _BYTES),
        Exchange(push(0, 2, b"x"), REFUSED),
        Exchange(push(11, 0), REFUSED),
        Exchange(pack(">BQ", 0, 4) + b"tiny", REFUSED),
        Exchange(_WORDS, PUSHED),
        Exchange(pull(b"a body"), _FLOATS),
        Exchange(pull(), _WORDS),
        Exchange(pull(), EMPTY),
        Exchange(push(0x20, 1, b"x"), PUSHED),
        Exchange(pull(), push(0, 1, b"x")),
        Exchange(push(0, 4, b"last"), PUSHED),
        Exchange(push(STR, 0), PUSHED),
    ]
    breaches = [
        Breach(b"\xfe"),
        Breach(b"\2" + bytes(8)),
        Breach(pack(">BQ", 0, _BODY_BYTES_MAX + 1), REFUSED),
        Breach(pack(">BQ", 1, (1 << 64) - 1), REFUSED),
    ]
    sizes = [
        Size("push", lambda value: pack(">BQ", 0, value), _BODY_BYTES_MAX, 1 << 64, REFUSED, least=1),
        Size("pull", lambda value: pack(">BQ", 1, value), _BODY_BYTES_MAX, 1 << 64, REFUSED, least=1),
    ]
    record_bytes_max = LIMITS.message_bytes_max
    too_large = REFUSED
    begun = [b"\0", push(0, 5, b"whole")[:-1], push(0, 5, b"whole")[:12], pull()[:-1], pull(b"body")[:-1]]

    @classmethod
    def factory(cls, core: Core) -> SmqFactory:
        return SmqFactory(core, SmqSettings())

    @classmethod
    def unknown(cls) -> Iterable[tuple[bytes, bytes, bool]]:
        for action in range(2, 256):
            yield pack(">BQ", action, 0), b"", False

    @classmethod
    def waits(cls, exchange: Exchange) -> bool:
        return exchange.asked[0] != PULL

    def prepare(self) -> Exchange:
        return self.ask()

    def open(self) -> Exchange:
        return self.ask()

    def ask(self) -> Exchange:
        # A push that is refused: a pull would take something.
        return Exchange(pack(">BQ", 0, 0), REFUSED)

    def flood(self) -> Exchange:
        return self.write(b"")

    def write(self, record: bytes) -> Exchange:
        return Exchange(push(0, len(record), record), PUSHED)

    def fetch(self, records: Sequence[bytes]) -> Exchange:
        return Exchange(pull() * len(records), b"".join([push(0, len(each), each) for each in records]))

    @classmethod
    def taken(cls, told: bytes) -> int:
        return whole_replies(told, len(told))
