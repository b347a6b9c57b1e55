"""How each codec's requests are put into bytes again, and its replies understood. A new codec is one more entry.

What is a request and how one is taken apart, the tests of the codecs know best. `replies` has the clients' codecs.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack
from typing import Any, Final

from fuzz import replies
from fuzz.codec import LINE_BYTES_MAX, MESSAGE_BYTES_MAX, CodecLaws
from fuzz.law import hold
from streamd.batch import Batch
from streamd.wire import faststream, fujin, sesp, smq
from streamd.wire import fujin_replies as fujin_sent
from streamd.wire.client.fujin import FujinReplies
from streamd.wire.fields import Message, to_bytes
from streamd.wire.fujin import Opcode
from streamd.wire.pravega import documented as pravega
from streamd.wire.pravega.appends import Append
from streamd.wire.pravega.documented import Type
from streamd.wire.pravega.today import TodayMessage, encode
from tests.protocols.laws.pravega_today import PravegaToday
from tests.rigs.wire import faststream as faststream_bytes
from tests.rigs.wire import fujin as fujin_bytes
from tests.rigs.wire import pravega as pravega_bytes
from tests.rigs.wire import pravega_today as today_bytes
from tests.rigs.wire import sesp as sesp_bytes
from tests.rigs.wire import smq as smq_bytes
from tests.rigs.wire import tools as tools_bytes

_NAMED: Final = {sesp.Create: b"#", sesp.Delete: b"!", sesp.Select: b"@", sesp.Seal: b"=", sesp.Describe: b"?"}


def _sesp(command: sesp.Command) -> bytes | None:
    if isinstance(command, sesp.Publish):
        return b">" + bytes(command.batch.payload) + b"\n"
    if isinstance(command, sesp.Seek):
        return b"%s%d\n" % (b"%" if isinstance(command, sesp.Truncate) else b"$", command.offset)
    if isinstance(command, sesp.Named):
        return _NAMED[type(command)] + command.name.encode() + b"\n"
    return {sesp.Read: b"<\n", sesp.List: b"?\n", sesp.Status: b"&\n"}.get(type(command))


def _sesp_replies(records: Sequence[bytes]) -> None:
    """One line for each record, which tells it."""
    lines = sesp.message_lines(records).split(b"\n")
    hold(lines.pop() == b"" and len(lines) == len(records), f"{len(records)} records are {len(lines)} lines")
    told = [sesp_bytes.unescaped(line[1:]) if line[:1] == b"*" else line[1:] for line in lines]
    hold(told == list(records), f"{records} are told as {told}")


def _smq(request: smq_bytes.One) -> bytes | None:
    if request == smq_bytes.BAD:
        return None
    if request == smq_bytes.PULL:
        return smq_bytes.pull()
    if request == smq_bytes.GOODBYE:
        return b"\xff"
    _, kind, data = request
    return smq_bytes.push(
        kind, data.count(b"\0") if kind == smq.STR else len(data) // dict(smq_bytes.NUMBERS)[kind], data
    )


def _smq_replies(records: Sequence[bytes]) -> None:
    """One response for each record that another protocol stored: its bytes, or a string with the NUL that ends it."""
    data = smq.replies(0, records)
    hold(smq.whole_replies(data, len(data)) == len(records), f"{records} are told as {data!r}")
    told = smq_bytes.singles(smq.SmqCodec(len(data)).receive(data))
    wanted = [record + b"\0" if kind == smq.STR else record for record, (_, kind, _) in zip(records, told, strict=True)]
    hold([message for _, _, message in told] == wanted, f"{records} are told as {told}")


_WITH_STREAM: Final = {faststream.Create: 1, faststream.Delete: 2, faststream.Check: 9}


def _faststream(request: Any) -> bytes:
    if isinstance(request, faststream.EnqueueMany):
        to = faststream_bytes.all_except if request.all_except else faststream_bytes.multiple
        return to(request.record, *request.streams)
    if isinstance(request, faststream.Ping):
        return faststream_bytes.PING
    if isinstance(request, faststream.Contents):
        return faststream_bytes.one(7 if request.take else 8, request.stream)
    if isinstance(request, faststream.Create | faststream.Delete | faststream.Check):
        return faststream_bytes.one(_WITH_STREAM[type(request)], request.stream)
    # A single enqueue, which the tests take apart into stream and record.
    return faststream_bytes.single(*request)


def _pravega(request: Any) -> bytes | None:
    if isinstance(request, TodayMessage | Append):
        # It has a target of its own.
        return None
    if isinstance(request, pravega.SetupAppend):
        name = len(request.name.raw).to_bytes(2, "big") + request.name.raw
        return pravega.message(Type.SETUP_APPEND, request.writer + name)
    if isinstance(request, pravega.ReadSegment):
        place = request.offset.to_bytes(8, "big") + request.length.to_bytes(4, "big")
        return pravega.named(Type.READ_SEGMENT, request.name, place)
    if isinstance(request, pravega.CreateSegment):
        return pravega.named(Type.CREATE_SEGMENT, request.name)
    if isinstance(request, pravega.KeepAlive):
        return pravega.message(Type.KEEP_ALIVE, request.data)
    if isinstance(request, Message):
        return to_bytes(request)
    # A single event, which the tests take apart into writer, offset and record.
    writer, offset, record = request
    return pravega_bytes.block(offset, pravega_bytes.event(record), writer=writer)


def _pravega_today(request: Any) -> bytes | None:
    if isinstance(request, TodayMessage):
        return encode(request)
    if isinstance(request, pravega.KeepAlive):
        return pravega.message(Type.KEEP_ALIVE, request.data)
    if not isinstance(request, Append):
        return None
    data = bytes(request.batch.payload) if request.is_raw else b"".join(pravega.event_parts(request.batch))
    if request.offset is None:
        return today_bytes.append(request.number, data, request.writer, request.id)
    if request.is_raw:
        return today_bytes.conditional(request.number, request.offset, data, request.writer, request.id)
    return today_bytes.message(
        5, request.writer, today_bytes.long(request.number, request.offset), data, today_bytes.long(request.id)
    )


def _pravega_replies(records: Sequence[bytes]) -> None:
    """Records are told as events, which are these records again."""
    batch = Batch.of(records)
    told = pravega.events(b"".join(pravega.event_parts(batch)), batch.size)
    hold(told == batch, f"{records} are told as {told.records()}")


_BY_ID: Final = {fujin.Begin: Opcode.BEGIN, fujin.Commit: Opcode.COMMIT, fujin.Rollback: Opcode.ROLLBACK}
_ACKNOWLEDGE: Final = {"ack": Opcode.ACK, "nack": Opcode.NACK}


def _fujin(request: Any) -> bytes:
    if isinstance(request, fujin.ConnectWriter):
        return pack(">BI", Opcode.CONNECT_WRITER, request.writer)
    if isinstance(request, fujin.ConnectReader):
        return bytes((Opcode.CONNECT_READER,)) + _string(request.name) + bytes((request.role is fujin.Role.CONSUMER,))
    if isinstance(request, fujin.Fetch):
        return pack(">BI", Opcode.FETCH, request.messages)
    if isinstance(request, fujin.Disconnect):
        return bytes((Opcode.DISCONNECT,))
    if type(request) in _BY_ID:
        return b"".join([bytes((_BY_ID[type(request)],)), request.ids])
    # A single ACK, NACK or WRITE, which the tests take apart.
    first, second, third = request
    if first in _ACKNOWLEDGE:
        return pack(">BI", _ACKNOWLEDGE[first], second) + (b"" if third is None else pack(">Q", third))
    return b"".join([pack(">BI", Opcode.WRITE, first), _string(second), pack(">I", len(third)), third])


def _string(text: str) -> bytes:
    """A name as it came, also where that was no UTF-8."""
    data = text.encode("utf-8", "surrogateescape")
    return pack(">I", len(data)) + data


def _fujin_replies(records: Sequence[bytes]) -> None:
    """Records are told with or without their numbers, and a client reads these records."""
    limit = max(map(len, records))
    for first in (None, 2**63):
        connected = fujin_sent.reader_connected(first is None, 0 if first is None else 8)
        data = connected + fujin_sent.messages(Batch.of(records), first)
        _, *found = fujin_bytes.told(FujinReplies(limit).receive(data))
        metas = [None if first is None else pack(">Q", first + at) for at in range(len(records))]
        wanted = list(zip(metas, records, strict=True))
        hold(found == wanted, f"{wanted} are told as {found}")


def _fujin_codec() -> fujin.FujinCodec:
    return fujin.FujinCodec(MESSAGE_BYTES_MAX, lambda name: 8 if name == fujin_bytes.MANUAL else 0)


WIRES: Final[dict[str, CodecLaws]] = {
    "sesp": CodecLaws(
        lambda: sesp.SespCodec(LINE_BYTES_MAX), sesp_bytes.singles, _sesp, _sesp_replies, greeting=b"<\n"
    ),
    "smq": CodecLaws(lambda: smq.SmqCodec(MESSAGE_BYTES_MAX), smq_bytes.singles, _smq, _smq_replies),
    "faststream": CodecLaws(lambda: faststream.FastStreamCodec(MESSAGE_BYTES_MAX), faststream_bytes.plain, _faststream),
    "pravega": CodecLaws(
        lambda: pravega.PravegaCodec(MESSAGE_BYTES_MAX), pravega_bytes.plain, _pravega, _pravega_replies
    ),
    "pravega-today": CodecLaws(
        lambda: pravega.PravegaCodec(MESSAGE_BYTES_MAX), list, _pravega_today, greeting=today_bytes.HELLO
    ),
    "fujin": CodecLaws(_fujin_codec, fujin_bytes.plain, _fujin, _fujin_replies),
    **replies.REPLIES,
}

TRANSCRIPTS: Final[dict[str, Sequence[bytes]]] = {
    "sesp": [end.join([*(line for line, _ in sesp_bytes.CONVERSATION), b""]) for end in (b"\n", b"\r\n")],
    "smq": [smq_bytes.WHOLE],
    "faststream": [faststream_bytes.WHOLE],
    "pravega": [pravega_bytes.WHOLE, tools_bytes.WHOLE],
    "pravega-today": [b"".join(exchange.asked for exchange in PravegaToday.transcript)],
    "fujin": [fujin_bytes.WRITER, fujin_bytes.READER],
    **replies.TRANSCRIPTS,
}
"""What the tests say to each codec: here the fuzzer begins."""
