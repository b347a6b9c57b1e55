"""``/topics/NAME``: messages for programs that speak HTTP and nothing else.

``POST`` publishes the body as one message, or each line of it with the type ``application/x-ndjson``, and answers when
they are durable. ``GET`` reads messages from an offset on, as JSON lines, and can wait for them. Rules, limits and
promises are those of every protocol; `docs/http.md` is the page for users.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure
from twisted.web.http import (
    BAD_REQUEST,
    CONFLICT,
    FORBIDDEN,
    GONE,
    INTERNAL_SERVER_ERROR,
    NOT_ALLOWED,
    NOT_FOUND,
    REQUEST_ENTITY_TOO_LARGE,
    SERVICE_UNAVAILABLE,
    UNSUPPORTED_MEDIA_TYPE,
)
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from streamd.access.permits import READ, VISIBLE, WRITE, NotAllowed, TooManyTopics, TopicFull, right_words
from streamd.as_json import json_lines
from streamd.batch import Batch
from streamd.connections.core import Core
from streamd.http.guard import Channel, Guard
from streamd.http.views import BadQuestion, arguments_of, number_of
from streamd.interfaces import RequestError
from streamd.store import (
    BadName,
    LevelGap,
    LevelOverlap,
    NoSuchSegment,
    ReadFailed,
    RecordsTruncated,
    Run,
    Segment,
    SegmentExists,
    SegmentSealed,
    StoreReadOnly,
)
from streamd.store.names import check_name

MESSAGES_MAX: Final = 1000
"""Messages in one answer."""

_MESSAGES_DEFAULT: Final = 100

# An answer ends with the message that takes it over this. One message is always given whole.
_ANSWER_BYTES: Final = 256 << 10

WAIT_SECONDS_MAX: Final = 60

_LINES: Final = "application/x-ndjson"

# Where a request can be tried again as it is.
_RETRY_SECONDS: Final = 1

_SEQUENCE_MAX: Final = 1 << 62

_STATUS: Final[dict[type[Exception], int]] = {
    BadQuestion: BAD_REQUEST,
    BadName: BAD_REQUEST,
    NotAllowed: FORBIDDEN,
    TopicFull: FORBIDDEN,
    TooManyTopics: FORBIDDEN,
    NoSuchSegment: NOT_FOUND,
    SegmentSealed: CONFLICT,
    LevelGap: CONFLICT,
    LevelOverlap: CONFLICT,
    RecordsTruncated: GONE,
    StoreReadOnly: SERVICE_UNAVAILABLE,
    ReadFailed: INTERNAL_SERVER_ERROR,
}


class _Unsupported(BadQuestion):
    """The body is of a type that is no message."""


class Topics(Resource):
    """The resource of ``/topics/NAME``."""

    isLeaf = True

    def __init__(self, core: Core, *, from_page: bool) -> None:
        super().__init__()
        self._core = core
        self._from_page = from_page
        self._waiting: set[Deferred[None]] = set()

    def render(self, request: Guard) -> int:
        """Publish or read; whatever goes wrong is answered as JSON."""
        action = {b"POST": self._publish, b"GET": self._read, b"HEAD": self._describe}.get(request.method)
        if action is None:
            request.setHeader(b"allow", b"GET, HEAD, POST")
            _send(request, NOT_ALLOWED, {"error": "only GET, HEAD and POST"})
            return NOT_DONE_YET
        Deferred.fromCoroutine(action(request)).addErrback(self._refuse, request)
        return NOT_DONE_YET

    def end(self) -> None:
        """Answer those who wait for messages, since the daemon ends."""
        for waiting in list(self._waiting):
            waiting.cancel()

    # -- publish -------------------------------------------------------------------------------------------------------

    async def _publish(self, request: Guard) -> None:
        channel, arguments = request.channel, arguments_of(request)
        name = _name(request)
        if request.is_from_page and not self._from_page:
            channel.count_invalid()
            return _send(request, FORBIDDEN, {"error": "http.publish does not let pages publish"})
        if request.excess:
            channel.count_invalid()
            return self._too_much(request, request.excess)
        batch = _batch(request)
        channel.allow(WRITE, name)
        writer, sequence = _writer(request)
        segment = await self._find_or_make(channel, name, make=_flag(arguments, "create"))
        level = sequence + batch.count
        if writer is None or (segment.claimed_level(writer) or 0) < level:
            channel.allow_write(segment, batch)
        wait = channel.pay(batch.count, batch.size)
        stored = await self._core.store.append(
            segment, batch, writer=writer, expected=sequence, level=level if writer else 0
        )
        if wait:
            # Who is faster than its rate waits: nothing is refused.
            await self._patiently(request, Deferred(), wait)
        if stored.duplicate:
            return _send(request, 200, {"topic": name, "count": batch.count, "duplicate": True})
        channel.traffic.published(batch.count, batch.size)
        return _send(request, 200, {"topic": name, "offset": stored.number, "count": batch.count})

    async def _find_or_make(self, channel: Channel, name: str, *, make: bool) -> Segment:
        store = self._core.store
        try:
            return store.find(name)
        except NoSuchSegment:
            if not make:
                raise
        channel.allow_create(name)
        try:
            return await store.create(name)
        except SegmentExists:
            return store.find(name)

    def _too_much(self, request: Guard, code: int) -> None:
        size = self._core.limits.message_bytes_max
        text = (
            f"a body has at most {size} bytes, see limits.message_bytes_max"
            if code == REQUEST_ENTITY_TOO_LARGE
            else "too much is buffered for all connections now, see limits.buffered_bytes_max"
        )
        _send(request, code, {"error": text})

    # -- read ----------------------------------------------------------------------------------------------------------

    async def _describe(self, request: Guard) -> None:
        name = _name(request)
        request.channel.allow(VISIBLE, name)
        segment = self._core.store.find(name)
        request.setHeader(b"streamd-first", b"%d" % segment.first_number)
        request.setHeader(b"streamd-next", b"%d" % segment.number)
        request.setHeader(b"content-type", _LINES.encode())
        request.finish()

    async def _read(self, request: Guard) -> None:
        channel, arguments = request.channel, arguments_of(request)
        name = _name(request)
        most = number_of(arguments, "max", _MESSAGES_DEFAULT)
        seconds = number_of(arguments, "wait", 0)
        if not 1 <= most <= MESSAGES_MAX:
            raise BadQuestion(f"max: expected a number from 1 to {MESSAGES_MAX}")
        if seconds > WAIT_SECONDS_MAX:
            raise BadQuestion(f"wait: expected at most {WAIT_SECONDS_MAX} seconds")
        channel.allow(READ, name)
        segment = self._core.store.find(name)
        first = segment.first_number
        if arguments.get("from") == "latest":
            first = segment.number
        elif "from" in arguments:
            first = number_of(arguments, "from", 0)
        if seconds and segment.number <= first:
            await self._patiently(request, self._core.store.wait(segment, first), seconds)
            # The rules may have changed meanwhile.
            channel.allow(READ, name)
        if request.is_gone:
            return
        try:
            runs = await self._core.store.read(
                segment,
                first,
                bytes_max=_ANSWER_BYTES,
                records_max=most,
                admit=channel.admit,
            )
            self._answer(request, segment, first, runs)
        finally:
            self._core.load.leave_room(channel)

    def _answer(self, request: Guard, segment: Segment, first: int, runs: list[Run]) -> None:
        lines = [json_lines(segment.name, run.number, run.timestamp, run.tag, run.batch) for run in runs]
        count, size = sum(run.batch.count for run in runs), sum(run.batch.size for run in runs)
        request.channel.traffic.read(count, size)
        request.channel.pay(0, size)
        request.setHeader(b"streamd-first", b"%d" % segment.first_number)
        request.setHeader(b"streamd-next", b"%d" % (runs[-1].number + runs[-1].batch.count if runs else first))
        _send_bytes(request, 200, _LINES, b"".join(lines))

    async def _patiently(self, request: Guard, waiting: Deferred[None], seconds: float) -> None:
        """Wait for so long at most, and no longer than the peer or the daemon is there."""
        request.notifyFinish().addErrback(lambda _: waiting.cancel())
        late = self._core.clock.callLater(seconds, waiting.cancel)
        self._waiting.add(waiting)
        try:
            await waiting
        except CancelledError:
            pass  # in time, or for want of anybody who waits
        finally:
            self._waiting.discard(waiting)
            if late.active():
                late.cancel()

    # -- errors --------------------------------------------------------------------------------------------------------

    def _refuse(self, failure: Failure, request: Guard) -> None:
        error = failure.value
        if not isinstance(error, RequestError | BadQuestion):
            request.processingFailed(failure)
            return
        body: dict[str, Any] = {"error": str(error)}
        channel = request.channel
        if isinstance(error, NotAllowed):
            body["error"] = channel.explain(error)
            if error.right:
                body["right"] = " or ".join(right_words(error.right))
            else:
                body["reason"] = error.reason
        elif isinstance(error, RequestError):
            channel.note(error)
        else:
            channel.count_invalid()
        if isinstance(error, NoSuchSegment):
            body["error"] = "there is no topic of this name"
        elif isinstance(error, SegmentSealed):
            body["error"] = "the topic is sealed and takes no more messages"
        elif isinstance(error, LevelGap | LevelOverlap):
            body = {"error": f"the next sequence of this writer is {error.stored or 0}", "sequence": error.stored or 0}
        elif isinstance(error, RecordsTruncated):
            body = {"error": f"the first message that is kept is {error.first_number}", "first": error.first_number}
        elif isinstance(error, StoreReadOnly):
            body["error"] = "the daemon ends" if self._core.store.closing else "the disk is full"
        code = UNSUPPORTED_MEDIA_TYPE if isinstance(error, _Unsupported) else _STATUS.get(type(error), BAD_REQUEST)
        _send(request, code, body)


def _name(request: Request) -> str:
    """The name of the topic: all behind ``/topics/``, percent-encoded."""
    try:
        name = b"/".join(request.postpath or ()).decode("utf-8")
    except UnicodeDecodeError:
        raise BadQuestion("the name of the topic is not UTF-8")
    check_name(name)
    return name


def _batch(request: Guard) -> Batch:
    """The messages in the body of a request."""
    kind = (request.getHeader("content-type") or "").partition(";")[0].strip().lower()
    if kind.startswith("multipart/"):
        raise _Unsupported("a message is the body as it is, not a part of a form: curl --data-binary, not -F")
    body = b"".join(request.body)
    if kind != _LINES:
        return Batch.single(body)
    lines = [line for line in body.replace(b"\r\n", b"\n").split(b"\n") if line]
    if not lines:
        raise BadQuestion("there are no lines in the body")
    return Batch.of(lines)


def _writer(request: Request) -> tuple[bytes | None, int]:
    """The id of the writer and the sequence of the first message, where each message is to be stored once."""
    name, sequence = request.getHeader("streamd-writer"), request.getHeader("streamd-sequence")
    if name is None and sequence is None:
        return None, 0
    if not name or sequence is None:
        raise BadQuestion("Streamd-Writer and Streamd-Sequence go together")
    number = number_of({"Streamd-Sequence": sequence}, "Streamd-Sequence", 0)
    if number > _SEQUENCE_MAX:
        raise BadQuestion("Streamd-Sequence: too large")
    return blake2b(name.encode(), digest_size=16, person=b"http").digest(), number


def _flag(arguments: Mapping[str, str], name: str) -> bool:
    text = arguments.get(name, "false")
    if text not in ("true", "false"):
        raise BadQuestion(f"{name}: expected true or false")
    return text == "true"


def _send(request: Guard, code: int, body: Mapping[str, object]) -> None:
    if code == SERVICE_UNAVAILABLE:
        request.setHeader(b"retry-after", b"%d" % _RETRY_SECONDS)
    _send_bytes(request, code, "application/json", json.dumps(body, ensure_ascii=False).encode() + b"\n")


def _send_bytes(request: Guard, code: int, kind: str, body: bytes) -> None:
    if request.is_gone:
        return
    request.setResponseCode(code)
    request.setHeader(b"content-type", kind.encode())
    request.setHeader(b"content-length", b"%d" % len(body))
    if request.method != b"HEAD":
        request.write(body)
    request.finish()
