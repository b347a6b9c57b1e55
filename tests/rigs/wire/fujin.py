"""Ids and limits of Fujin for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import pack

from streamd.batch import Batch
from streamd.wire import fujin_replies as replies
from streamd.wire.client import fujin as client
from streamd.wire.fujin import (
    Acknowledge,
    Write,
)
from streamd.wire.fujin_replies import Code, Reply

LIMIT = 1 << 20


def id_bytes(*ids: int) -> bytes:
    return pack(f">{len(ids)}I", *ids)


MANUAL = "manual"
"""The reader whose messages have a meta."""


def ack(id: int, number: int) -> bytes:
    return client.acknowledge(id, pack(">Q", number))


def nack(id: int, number: int) -> bytes:
    return client.acknowledge(id, pack(">Q", number), back=True)


WRITER = b"".join(
    [
        client.connect_writer(7),
        client.write(1, "a", b"one") + client.write(2, "a", b"") + client.write(3, "b", b"three"),
        client.writes(10, "a", [b"same"] * 6),
        client.write(4, "\xe4" * 20, b"x" * 300),
        client.begin(20),
        client.commit(21),
        client.rollback(22),
        client.DISCONNECT,
    ]
)
READER = b"".join(
    [
        client.connect_reader(MANUAL, consumer=True),
        client.fetch(2**32 - 1),
        ack(1, 5) + ack(2, 2**64 - 1),
        nack(3, 0),
        b"".join(ack(id, id + 1000) for id in range(50)),
        client.DISCONNECT,
    ]
)
REPLIES = b"".join(
    [
        replies.reader_connected(False, 8),
        replies.messages(Batch.of([b"one", b"", b"three"]), 5),
        replies.answers(Reply.ACKNOWLEDGED, id_bytes(1, 2, 3)),
        replies.answers(Reply.ACKNOWLEDGED, id_bytes(4), Code.NOT_DELIVERED, "never"),
        replies.answers(Reply.GIVEN_BACK, id_bytes(5)),
        replies.transaction(Reply.BEGUN, id_bytes(6)),
        replies.transaction(Reply.COMMITTED, id_bytes(7)),
        replies.transaction(Reply.ROLLED_BACK, id_bytes(8)),
        replies.STOP,
        replies.DISCONNECTED,
    ]
)
REPLIES_EXPECTED: list[object] = [
    client.Connected(False, 8, 0, ""),
    (pack(">Q", 5), b"one"),
    (pack(">Q", 6), b""),
    (pack(">Q", 7), b"three"),
    *[(Reply.ACKNOWLEDGED, id, 0, "") for id in (1, 2, 3)],
    (Reply.ACKNOWLEDGED, 4, Code.NOT_DELIVERED, "never"),
    (Reply.GIVEN_BACK, 5, 0, ""),
    (Reply.BEGUN, 6, 0, ""),
    (Reply.COMMITTED, 7, 0, ""),
    (Reply.ROLLED_BACK, 8, 0, ""),
    client.Told(Reply.STOP),
    client.Told(Reply.DISCONNECTED),
]


def plain(requests: Iterable[object]) -> list[object]:
    """Requests with runs taken apart: however they were cut or joined, this is the same."""
    found: list[object] = []
    for request in requests:
        if isinstance(request, Write):
            ids = replies.U32.iter_unpack(request.ids)
            records = request.batch.records()
            found += [(id, request.topic, bytes(record)) for (id,), record in zip(ids, records, strict=True)]
        elif isinstance(request, Acknowledge):
            word = "nack" if request.back else "ack"
            unpacked = [id for (id,) in replies.U32.iter_unpack(request.ids)]
            numbers: Sequence[int | None] = request.numbers or [None] * len(unpacked)
            found += [(word, id, number) for id, number in zip(unpacked, numbers, strict=True)]
        else:
            found.append(request)
    return found


def told(events: Iterable[object]) -> list[object]:
    """What a client is told, with runs taken apart."""
    found: list[object] = []
    for event in events:
        if isinstance(event, client.Answers):
            found += [(event.reply, id, event.code, event.text) for id in event.ids]
        elif isinstance(event, client.Messages):
            records = [bytes(each) for each in event.batch.records()]
            metas: Sequence[bytes | None] = event.metas or [None] * len(records)
            found += zip(metas, records, strict=True)
        else:
            found.append(event)
    return found


def events(*pieces: bytes) -> list[object]:
    """What a client makes of this, runs taken apart."""
    parser = client.FujinReplies(LIMIT)
    found: list[object] = []
    for piece in pieces:
        if parser.error is None:
            found += told(parser.receive(piece))
    return [*found, str(parser.error)] if parser.error is not None else found
