"""Fujin over QUIC: each stream is one writer or one reader, and answers in order; readers share groups.

Where a reply has room for an error it says what is wrong. Where it has none the stream is closed with an application
error code, after the requests before it were answered. Over an endpoint other than QUIC one connection is one stream,
without pings and codes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.protocol import connectionDone
from twisted.logger import LogLevel
from twisted.python.failure import Failure

from streamd.access.permits import CREATE, READ, WRITE, NotAllowed, TooManyTopics, TopicFull
from streamd.connections.base import Reply, StreamProtocol
from streamd.connections.core import Core
from streamd.groups import Groups, Member
from streamd.interfaces import RequestError
from streamd.protocols.fujin.reader import Reader
from streamd.protocols.fujin.settings import FujinSettings
from streamd.protocols.fujin.transaction import Transaction, TransactionFailed, TransactionTooLarge
from streamd.quic.interfaces import IQuicStream
from streamd.store import (
    BadName,
    NoSuchSegment,
    RequestTooLarge,
    Segment,
    SegmentExists,
    SegmentSealed,
    StoreError,
    StoreReadOnly,
)
from streamd.store.errors import level_of
from streamd.store.names import check_name
from streamd.store.records.offsets import span
from streamd.wire import WireError, fujin
from streamd.wire import fujin_replies as replies
from streamd.wire.fujin import Role
from streamd.wire.fujin_replies import Code

_ERRORS: Final[dict[type[RequestError], tuple[Code, str]]] = {
    BadName: (Code.BAD_TOPIC, "the topic can't have this name: {error}"),
    NoSuchSegment: (Code.NO_SUCH_TOPIC, "there is no topic {error}"),
    SegmentSealed: (Code.TOPIC_SEALED, "the topic {error} takes no more messages"),
    RequestTooLarge: (Code.TOO_LARGE, "{error}"),
    StoreReadOnly: (Code.READ_ONLY, "nothing can be written now: {error}"),
    NotAllowed: (Code.NOT_ALLOWED, "you may not do that with {error}"),
    TopicFull: (Code.NOT_ALLOWED, "{error} holds as much as you may fill it with"),
    TooManyTopics: (Code.NOT_ALLOWED, "there are as many topics as you may make"),
    TransactionFailed: (Code.TRANSACTION_FAILED, "{error}; it can only be rolled back"),
    TransactionTooLarge: (Code.TRANSACTION_FAILED, "{error}; it can only be rolled back"),
}

# Errors whose text is the name of a topic.
_NAMING: Final = (NoSuchSegment, SegmentSealed, NotAllowed)

# What a client should have known; other codes tell of what an answer has no room for.
_BREACHES: Final = (Code.IN_TRANSACTION, Code.NO_TRANSACTION)


def error_of(error: RequestError) -> tuple[Code, str]:
    """The code and the text that a client gets for an error."""
    code, text = _ERRORS.get(type(error), (Code.STORE_FAILED, "the store failed: {error}"))
    return code, text.format(error=error)


class FujinProtocol(StreamProtocol):
    """One Fujin stream. Its codec knows whether it is a writer's or a reader's, and lets nothing else through."""

    name = "fujin"
    codec: fujin.FujinCodec

    def __init__(self, core: Core, settings: FujinSettings, groups: Groups) -> None:
        super().__init__(core, fujin.FujinCodec(core.limits.message_bytes_max, settings.meta_bytes))
        self._settings = settings
        self._groups = groups
        self._code = Code.NONE
        self._transaction: Transaction | None = None
        self._reader: Reader | None = None
        self._reader_name = ""

    def perform(self, request: Any) -> Reply:
        act, reader = _ACTIONS[type(request)], self._reader
        if reader is not None:
            if not reader.begun:
                # Messages come behind the reply to CONNECT, and before what is asked next, also in one write with it.
                self._flush()
            if isinstance(request, fujin.Acknowledge) and reader.must_split(request):
                return self.one_by_one(request.singles())
            if reader.precedes(request):
                return reader.when_sent(request).addCallback(lambda _: act(self, request))
        return act(self, request)

    def refused(self, request: Any, error: RequestError) -> bytes | None:
        if isinstance(request, fujin.ConnectReader | fujin.Acknowledge) and isinstance(error, _NAMING):
            # A reader is told the name that it came with: which topic that stands for is the operator's secret.
            error = type(error)(self._reader_name)
        code, text = error_of(error)
        if isinstance(request, fujin.Write):
            return replies.answers(replies.Reply.WRITTEN, request.ids, code, text)
        if isinstance(request, fujin.Acknowledge):
            reply = replies.Reply.GIVEN_BACK if request.back else replies.Reply.ACKNOWLEDGED
            return replies.answers(reply, request.ids, code, text)
        if isinstance(request, fujin.ConnectReader):
            self.finish()
            return replies.reader_connected(False, 0, code, text)
        # What is left is a commit, whose answer has no room for an error.
        self._end_transaction(rolled_back=True)
        self.close_with(Code.COMMIT_FAILED, f"a transaction could not be committed: {text}", level_of(error))
        return None

    def broken(self, error: WireError) -> bytes | None:
        if not isinstance(error, fujin.Refused):
            return None
        self._code = error.code
        return error.last_words

    def close_with(self, code: Code, why: str, level: LogLevel = LogLevel.warn) -> None:
        """Close the stream with a code, after the requests before it were answered."""
        self.count_cut_off("broken" if code in _BREACHES else "unanswerable")
        self.log.emit(level, "a stream of {peer} is closed: {reason}", peer=self.peer, reason=why, code=code.name)
        self._code = code
        self.finish()

    # -- writing -------------------------------------------------------------------------------------------------------

    def _connect_writer(self, request: fujin.ConnectWriter) -> Reply:
        return None

    def _write(self, request: fujin.Write) -> Reply:
        reply = replies.answers(replies.Reply.WRITTEN, request.ids)
        batch = request.batch
        try:
            if self._transaction is not None:
                accepted = self._transaction.write(request.topic, batch)
                return reply if accepted is None else (accepted, reply)
            segment = self._target(request.topic, span(0, batch.count, batch.size))
        except (TopicFull, TransactionTooLarge):
            if batch.count == 1:
                raise
            return self.one_by_one(request.singles())
        stored = self.promise(reply, batch)
        self.core.store.append_for(stored, segment, batch)
        return stored

    def _check_target(self, topic: str, size: int) -> None:
        """Raise a RequestError where a topic could not take so many bytes more, counted as offsets are."""
        self.allow(WRITE, topic)
        segment = self.core.store.find_claimed(topic)
        if segment is None:
            check_name(topic)
            if not self._settings.auto_create:
                raise NoSuchSegment(topic)
            self.allow_fill(topic, size)
            self.allow(CREATE, topic)
        elif segment.claimed_sealed:
            raise SegmentSealed(topic)
        else:
            self.allow_more(segment, size)

    def _target(self, topic: str, size: int) -> Segment:
        """The segment of a topic that is to take so many bytes more, created where there is none.

        It can be appended to before it is on disk.
        """
        self.allow(WRITE, topic)
        store = self.core.store
        segment = store.find_claimed(topic)
        if segment is None:
            if not self._settings.auto_create:
                check_name(topic)
                raise NoSuchSegment(topic)
            self.allow_fill(topic, size)
            self.allow_create(topic)
            # Where this fails, so does what is appended behind it, and that is told.
            store.create(topic).addErrback(lambda failure: failure.trap(StoreError) and None)
            segment = store.find_claimed(topic)
            assert segment is not None
        else:
            self.allow_more(segment, size)
        return segment

    def _begin_transaction(self, request: fujin.Begin) -> Reply:
        if self._transaction is not None:
            self.close_with(Code.IN_TRANSACTION, "BEGIN inside a transaction")
            return None
        self._transaction = Transaction(
            self.core, self._settings.transaction_bytes_max, self._check_target, self._target
        )
        return replies.transaction(replies.Reply.BEGUN, request.ids)

    def _commit(self, request: fujin.Commit) -> Reply:
        if self._transaction is None:
            self.close_with(Code.NO_TRANSACTION, "COMMIT outside of a transaction")
            return None
        committed = self._transaction.commit()
        reply = replies.transaction(replies.Reply.COMMITTED, request.ids)
        if committed is None:
            self._end_transaction(rolled_back=False)
            return reply
        return committed.addCallback(self._committed, self._transaction), reply

    def _committed(self, _: object, transaction: Transaction) -> None:
        # The stream may be gone by now, and with it what it knows of the transaction.
        self.traffic.published(transaction.records, transaction.payload_bytes)
        self._end_transaction(rolled_back=False)

    def _rollback(self, request: fujin.Rollback) -> Reply:
        if self._transaction is None:
            self.close_with(Code.NO_TRANSACTION, "ROLLBACK outside of a transaction")
            return None
        self._end_transaction(rolled_back=True)
        return replies.transaction(replies.Reply.ROLLED_BACK, request.ids)

    def _end_transaction(self, *, rolled_back: bool) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            transaction.end(rolled_back=rolled_back)

    # -- reading -------------------------------------------------------------------------------------------------------

    def _connect_reader(self, request: fujin.ConnectReader) -> Reply:
        self._reader_name = request.name
        settings = self._settings.reader(request.name)
        self.allow(READ, settings.topic)
        reader = self._reader = Reader(self, auto_commit=settings.auto_commit, consumer=request.role is Role.CONSUMER)
        segment = self.core.store.find_claimed(settings.topic)
        if segment is not None and segment.committed:
            joining: Deferred[Any] = self._join(segment, request.name, reader)
        elif segment is None and not self._settings.auto_create:
            check_name(settings.topic)
            raise NoSuchSegment(settings.topic)
        else:
            if segment is None:
                self.allow_create(settings.topic)
            joining = self._make(settings.topic).addCallback(self._join, request.name, reader)
        return joining.addCallback(self._joined, request.name, reader)

    def _make(self, topic: str) -> Deferred[Segment]:
        """Create the segment of a topic, or wait until it is on disk: before that it can have no group."""

        def exists(failure: Failure) -> Segment:
            failure.trap(SegmentExists)
            return self.core.store.find(topic)

        return self.core.store.create(topic).addErrback(exists)

    def _join(self, segment: Segment, name: str, reader: Reader) -> Deferred[Member]:
        settings = self._settings.reader(name)
        return self._groups.join(segment, settings.group, reader.wake, latest=settings.start == "latest")

    def _joined(self, member: Member, name: str, reader: Reader) -> bytes:
        if self.is_closed:
            member.leave()
            return b""
        reader.join(member)
        # Messages come behind the reply, also where they were fetched in the same breath.
        self.when_sent(lambda _: reader.begin())
        return replies.reader_connected(self._settings.reader(name).auto_commit, self._settings.meta_bytes(name))

    def _fetch(self, request: fujin.Fetch) -> Reply:
        assert self._reader is not None
        self._reader.fetch(request.messages)
        return None

    def _acknowledge(self, request: fujin.Acknowledge) -> Reply:
        assert self._reader is not None
        self._reader.allow()
        return self._reader.acknowledge(request)

    @property
    def is_waiting(self) -> bool:
        """Whether a reader that has shut its side still gets messages."""
        return self._reader is not None and self._reader.is_busy

    def reader_rests(self) -> None:
        """Note that it does not any more, so that the end need not wait for it."""
        if not self.is_open:
            self._advance()

    def resumeProducing(self) -> None:
        """Go on: the peer takes more. Its requests come first, since it may want to disconnect."""
        super().resumeProducing()
        if self._reader is not None:
            self._reader.wake_later()

    def failed_to_push(self, failure: Failure) -> None:
        """Close the stream, since messages can't be sent. Anything but a RequestError is a bug."""
        error = failure.value
        if isinstance(error, RequestError):
            self.note(error)
            code, text = error_of(error)
            self.close_with(code, f"a message can't be read: {text}")
        else:
            self._crash(failure)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _disconnect(self, request: fujin.Disconnect) -> Reply:
        if self._reader is not None:
            self._reader.leave(in_order=True)
        self.finish()
        return replies.DISCONNECTED

    def finish(self) -> None:
        """Close after earlier requests were answered.

        A reader gets nothing more; a transaction may still be written.
        """
        if self._reader is not None:
            self._reader.leave()
        super().finish()

    def _let_go(self) -> None:
        """Roll back what was not committed, and give back what was not acknowledged."""
        self._end_transaction(rolled_back=True)
        if self._reader is not None:
            self._reader.leave()

    def drain(self) -> None:
        """Ask the client to disconnect. What it has begun goes on until it does, or until its time is over."""
        if self.is_open:
            self.tell(replies.STOP)
        else:
            super().drain()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        self._let_go()
        # The two know each other: only the collector would free them.
        self._reader = None

    def _close(self) -> None:
        self._let_go()
        if self._code and IQuicStream.providedBy(self.transport):
            self.transport.unregisterProducer()
            self.transport.end(self._code)
        else:
            super()._close()

    def _cut(self) -> None:
        self._let_go()
        if IQuicStream.providedBy(self.transport):
            self.transport.abortConnection(self._code or Code.CUT_OFF)
        else:
            super()._cut()


_ACTIONS: Final[dict[type, Callable[[FujinProtocol, Any], Reply]]] = {
    fujin.ConnectWriter: FujinProtocol._connect_writer,
    fujin.ConnectReader: FujinProtocol._connect_reader,
    fujin.Write: FujinProtocol._write,
    fujin.Begin: FujinProtocol._begin_transaction,
    fujin.Commit: FujinProtocol._commit,
    fujin.Rollback: FujinProtocol._rollback,
    fujin.Fetch: FujinProtocol._fetch,
    fujin.Acknowledge: FujinProtocol._acknowledge,
    fujin.Disconnect: FujinProtocol._disconnect,
}
