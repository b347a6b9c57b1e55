"""The clients' codecs: what a daemon sends, or somebody who passes for one, taken apart and put into bytes again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import pack
from typing import Any, Final

from fuzz.codec import LINE_BYTES_MAX, MESSAGE_BYTES_MAX, CodecLaws
from fuzz.law import hold
from streamd.batch import Batch
from streamd.wire import WireError, faststream, sesp, smq
from streamd.wire import fujin_replies as fujin
from streamd.wire.client import faststream as faststream_client
from streamd.wire.client import fujin as fujin_client
from streamd.wire.client import pravega as pravega_client
from streamd.wire.client import sesp as sesp_client
from streamd.wire.client import smq as smq_client
from streamd.wire.client.smq import Outcome
from streamd.wire.fujin_replies import Reply
from streamd.wire.pravega import documented as pravega
from tests.rigs.wire import fujin as fujin_bytes
from tests.rigs.wire import pravega as pravega_bytes

# -- SESP --------------------------------------------------------------------------------------------------------------


def _sesp_lines(lines: Iterable[bytes]) -> list[bytes]:
    """The lines themselves; what they say together is what they say one by one."""
    found = list(lines)
    hold(_sesp_said(found) == _joined([_sesp_said([line]) for line in found]), f"{found} say something else together")
    return found


def _sesp_said(lines: list[bytes]) -> tuple[list[bytes], list[str]] | None:
    """The messages and the names of the errors; None where a line is no reply."""
    try:
        return sesp_client.messages(lines)
    except WireError:
        return None


def _joined(said: Sequence[tuple[list[bytes], list[str]] | None]) -> tuple[list[bytes], list[str]] | None:
    messages: list[bytes] = []
    errors: list[str] = []
    for each in said:
        if each is None:
            return None
        messages += each[0]
        errors += each[1]
    return messages, errors


def _sesp_messages(records: Sequence[bytes]) -> None:
    """Records of any bytes, as the daemon tells them, are these records."""
    data = sesp.message_lines(records)
    found = sesp_client.messages(sesp_client.SespReplies(len(data)).receive(data))
    hold(found == (list(records), []), f"{records} are read as {found}")


# -- Simple Message Queue ----------------------------------------------------------------------------------------------

_SMQ_PLAIN: Final = {Outcome.PUSHED: smq.PUSHED, Outcome.REFUSED: smq.REFUSED, Outcome.EMPTY: smq.EMPTY}


def _smq(response: smq_client.Response) -> bytes:
    if response.outcome in _SMQ_PLAIN:
        return _SMQ_PLAIN[response.outcome]
    return smq.replies(smq.tag_of(response.kind), [response.data])


# -- FastStreamDB ------------------------------------------------------------------------------------------------------


def _faststream(reply: faststream_client.Reply) -> bytes:
    if isinstance(reply, faststream_client.StreamContents):
        return faststream.contents_header(len(reply.data)) + reply.data
    if isinstance(reply, faststream_client.StreamState):
        return faststream.state(reply.stream, reply.is_valid)
    return faststream.PONG


# -- Pravega -----------------------------------------------------------------------------------------------------------


# More than an input of the fuzzer has: what is an event does not depend on how it was cut.
_EVENT_BYTES_MAX: Final = 1 << 16


def _pravega_events(records: Sequence[bytes]) -> None:
    """Events of a segment that are read in two parts are those that are read at once; any bytes may pass for some."""
    events = b"".join([pravega_bytes.event(record) for record in records])
    hold(_events(events) == (list(records), None), f"{records} are read as {_events(events)}")
    for data in (events, b"".join(records)):
        middle = len(data) // 2
        found, error = _events(data)
        in_parts, error_in_parts = _events(data[:middle], data[middle:])
        hold(error == error_in_parts, f"in two parts {error_in_parts}, at once {error}")
        hold(error is not None or found == in_parts, f"in two parts {in_parts}, at once {found}")


def _events(*pieces: bytes) -> tuple[list[bytes], str | None]:
    """The events in what comes one after the other, and what is wrong with it."""
    found: list[bytes] = []
    rest = b""
    for piece in pieces:
        rest += piece
        try:
            some, at = pravega_client.whole_events(rest, _EVENT_BYTES_MAX)
        except WireError as error:
            return found, str(error)
        found += some
        rest = rest[at:]
    return found, None


# -- Fujin -------------------------------------------------------------------------------------------------------------

_TRANSACTION: Final = (Reply.BEGUN, Reply.COMMITTED, Reply.ROLLED_BACK)


def _fujin_told(events: Iterable[object]) -> list[Any]:
    """What is no UTF-8 in a text has become longer by its replacement: as one byte it fits where it came from."""
    found: list[Any] = fujin_bytes.told(events)
    for at, each in enumerate(found):
        if isinstance(each, fujin_client.Connected):
            found[at] = each._replace(text=_shorter(each.text))
        elif _is_answer(each):
            found[at] = (*each[:3], _shorter(each[3]))
    return found


def _is_answer(event: Any) -> bool:
    return isinstance(event[0], Reply) and not isinstance(event, fujin_client.Told)


def _shorter(text: str) -> str:
    return text.replace("\ufffd", "?")


def _fujin(event: Any) -> bytes:
    if isinstance(event, fujin_client.Connected):
        return fujin.reader_connected(*event)
    if isinstance(event, fujin_client.Told):
        return bytes((event.reply,))
    if _is_answer(event):
        reply, id, code, text = event
        ids = pack(">I", id)
        return fujin.transaction(reply, ids) if reply in _TRANSACTION else fujin.answers(reply, ids, code, text)
    meta, record = event
    return b"".join([bytes((Reply.MESSAGE,)), meta or b"", pack(">I", len(record)), record])


# -- all of them -------------------------------------------------------------------------------------------------------

REPLIES: Final[dict[str, CodecLaws]] = {
    "sesp-replies": CodecLaws(
        lambda: sesp_client.SespReplies(LINE_BYTES_MAX), _sesp_lines, lambda line: line + b"\n", _sesp_messages
    ),
    "smq-replies": CodecLaws(lambda: smq_client.SmqReplies(MESSAGE_BYTES_MAX), list, _smq),
    "faststream-replies": CodecLaws(lambda: faststream_client.FastStreamReplies(MESSAGE_BYTES_MAX), list, _faststream),
    "pravega-replies": CodecLaws(pravega_client.PravegaReplies, list, pravega_bytes.sent, _pravega_events),
    "fujin-replies": CodecLaws(lambda: fujin_client.FujinReplies(MESSAGE_BYTES_MAX), _fujin_told, _fujin),
}

_NAME: Final = pravega_bytes.NAME
_WRITER: Final = pravega_bytes.WRITER

_PRAVEGA: Final[Sequence[pravega_client.Reply]] = (
    pravega_client.AppendSetup(_NAME, _WRITER, -1),
    pravega_client.DataAppended(_WRITER, 2**40),
    pravega_client.SegmentRead(_NAME, 8, False, True, b"some data"),
    pravega_client.SegmentCreated(_NAME),
    pravega_client.SegmentIsSealed(_NAME),
    pravega_client.SegmentExists(_NAME),
    pravega_client.NoSuchSegment(_NAME),
    pravega_client.SegmentIsTruncated(_NAME, 16),
    pravega.KeepAlive(b"alive"),
)

TRANSCRIPTS: Final[dict[str, Sequence[bytes]]] = {
    "sesp-replies": [
        sesp.OK * 5 + sesp.message_lines([b"one", b"two\nlines", b"\\\xff"]) + sesp.error_line("None") + b'+{"a":1}\n'
    ],
    "smq-replies": [
        smq.PUSHED * 4
        + smq.REFUSED
        + smq.replies(smq.tag_of(smq.U8), [b"same"] * 5)
        + smq.replies(smq.tag_of(smq.STR), [b"a\0", b"ab\0c\0", b""])
        + smq.EMPTY * 2
    ],
    "faststream-replies": [
        b"".join(
            [
                faststream.PONG * 2,
                *(faststream.contents_header(size) + b"x" * size for size in (0, 5, 300)),
                faststream.state(7, True),
                faststream.state(2**32 - 1, False),
            ]
        )
    ],
    "pravega-replies": [
        b"".join([pravega_bytes.sent(reply) for reply in _PRAVEGA]),
    ],
    "fujin-replies": [
        fujin_bytes.REPLIES,
        fujin.reader_connected(True, 0)
        + fujin.messages(Batch.of([b"same"] * 6), None)
        + fujin.messages(Batch.of([b"", b"x"]), None),
    ],
}
