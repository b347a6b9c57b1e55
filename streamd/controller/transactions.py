"""Transactions: hidden segments, one for each segment of a stream, which a commit publishes in one atomic frame.

A transaction has a lease, which pings renew. One whose lease ends is aborted; after a restart each has a whole lease.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from streamd.access.permits import VISIBLE, WRITE
from streamd.connections.core import Core
from streamd.connections.order import Ordered
from streamd.controller.state import State, Transaction
from streamd.controller.streams import FAILURE, SUCCESS, ranges
from streamd.loop import Loop
from streamd.protocols.pravega.names import segment_name, transaction_name
from streamd.store import NoSuchSegment, RequestTooLarge, Segment, StoreError
from streamd.wire.controller import messages as wire
from streamd.wire.controller.messages import PingStatus, TxnState

# How often transactions that ended long ago are looked for, and how many are forgotten at once.
_FORGET_SECONDS: Final = 60.0
_FORGET_AT_ONCE: Final = 1000

_NOT_FOUND: Final = wire.Status(3)


class TooManyTransactions(RequestTooLarge):
    """There are as many open transactions as the settings allow."""


class Transactions:
    """Carries out calls about transactions, as far as the peer may."""

    _log = Logger()

    def __init__(
        self,
        core: Core,
        state: State,
        now: Callable[[], float],
        *,
        lease_seconds_max: float,
        transaction_seconds_max: float,
        transactions_max: int,
        ended_seconds_max: float,
    ) -> None:
        self._core = core
        self._store = core.store
        self._state = state
        self._now = now
        self._lease_max = int(lease_seconds_max * 1000)
        self._length_max = int(transaction_seconds_max * 1000)
        self._count_max = transactions_max
        self._ended_max = int(ended_seconds_max * 1000)
        self._leases: dict[bytes, IDelayedCall] = {}
        self._loop = Loop("transactions", self.forget_ended, core.clock, core.loops)

    def start(self) -> None:
        """Let leases run, of those transactions too that were open when the daemon last ended."""
        for id, transaction in self._state.transactions.items():
            if transaction.is_open:
                self._lease(id, transaction.lease)
        self._loop.start(_FORGET_SECONDS, now=False)

    def stop(self) -> None:
        """Let no lease end any more."""
        self._loop.stop()
        for lease in self._leases.values():
            lease.cancel()
        self._leases.clear()

    # -- calls ---------------------------------------------------------------------------------------------------------

    def begin(self, peer: Ordered, call: wire.CreateTxn) -> Any:
        """A new transaction on a stream."""
        scope, name = call.stream.scope, call.stream.stream
        stream = self._state.find(scope, name)
        if stream is None or stream.is_sealed:
            raise NoSuchSegment(f"{scope}/{name}")
        self._allow(peer, scope, name, stream.segments, WRITE)
        if not 0 < call.lease <= self._lease_max:
            raise StoreError(f"a lease of {call.lease} ms; at most {self._lease_max} are given")
        if len(self._leases) >= self._count_max:
            raise TooManyTransactions(f"{self._count_max} transactions are open")
        # The first four bytes are the epoch. The client takes the lower half for a signed number, and where that is
        # negative, goes on with all bits above it set.
        id = bytes(4) + os.urandom(4) + bytes([os.urandom(1)[0] & 0x7F]) + os.urandom(7)
        transaction = Transaction(scope, name, TxnState.OPEN, call.lease, int(self._now() * 1000))
        with self._store.together():
            made = [self._store.create(each, hidden=True) for each in _parts(transaction, id, stream.segments)]
            done = self._state.put_transaction(id, transaction)
        self._lease(id, call.lease)
        reply = wire.TxnCreated(wire.TxnId(int.from_bytes(id[:8]), int.from_bytes(id[8:])), ranges(call.stream, stream))
        waiting: list[Deferred[Any]] = [done, *made]
        return gatherResults(waiting, consumeErrors=True).addErrback(_first).addCallback(lambda _: reply)

    def ping(self, peer: Ordered, call: wire.PingTxn) -> Any:
        """Another lease for a transaction."""
        id, transaction = self._find(peer, call.stream, call.txn, WRITE)
        if transaction is None:
            return wire.Status(PingStatus.UNKNOWN)
        if not transaction.is_open:
            committed = transaction.state == TxnState.COMMITTED
            return wire.Status(PingStatus.COMMITTED if committed else PingStatus.ABORTED)
        if not 0 < call.lease <= self._lease_max:
            return wire.Status(PingStatus.LEASE_TOO_LARGE)
        if self._now() * 1000 - transaction.begun > self._length_max:
            return wire.Status(PingStatus.MAX_EXECUTION_TIME_EXCEEDED)
        self._lease(id, call.lease)
        return wire.Status(PingStatus.OK)

    def commit(self, peer: Ordered, call: wire.TxnRequest) -> Any:
        """Make all events of a transaction part of their segments, at once. Answers 3 where there is none."""
        id, transaction = self._find(peer, call.stream, call.txn, WRITE)
        if transaction is None:
            return _NOT_FOUND
        if not transaction.is_open:
            return SUCCESS if transaction.state == TxnState.COMMITTED else FAILURE
        pairs = self._pairs(transaction, id)
        if pairs is None:
            # The stream is sealed or deleted, or a topic of it is.
            return self._abort(id, transaction).addCallback(lambda _: FAILURE)
        for hidden, target in pairs:
            peer.allow_more(target, hidden.next_offset)
        with self._store.together():
            published = self._store.publish(pairs)
            done = self._end(id, transaction, TxnState.COMMITTED)
        return gatherResults([published, done], consumeErrors=True).addErrback(_first).addCallback(lambda _: SUCCESS)

    def abort(self, peer: Ordered, call: wire.TxnRequest) -> Any:
        """Drop all events of a transaction. Answers 3 where there is none."""
        id, transaction = self._find(peer, call.stream, call.txn, WRITE)
        if transaction is None:
            return _NOT_FOUND
        if not transaction.is_open:
            return SUCCESS if transaction.state == TxnState.ABORTED else FAILURE
        return self._abort(id, transaction).addCallback(lambda _: SUCCESS)

    def state_of(self, peer: Ordered, call: wire.TxnRequest) -> Any:
        """What became of a transaction."""
        _, transaction = self._find(peer, call.stream, call.txn, VISIBLE)
        return wire.Status(TxnState.UNKNOWN if transaction is None else transaction.state)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def abort_all(self, scope: str, stream: str) -> None:
        """Abort what is open on a stream: it is sealed."""
        for id, transaction in list(self._state.transactions.items()):
            if transaction.is_open and (transaction.scope, transaction.stream) == (scope, stream):
                self._abort(id, transaction).addErrback(self._could_not_abort)

    def forget_ended(self) -> None:
        """Forget transactions that ended long ago."""
        before = self._now() * 1000 - self._ended_max
        ended = [id for id, each in self._state.transactions.items() if not each.is_open and each.ended < before]
        with self._store.together():
            for id in ended[:_FORGET_AT_ONCE]:
                self._state.put_transaction(id, None).addErrback(lambda failure: failure.trap(StoreError))

    def _abort(self, id: bytes, transaction: Transaction) -> Any:
        stream = self._state.find(transaction.scope, transaction.stream)
        with self._store.together():
            deleted = []
            for name in _parts(transaction, id, 0 if stream is None else stream.segments):
                try:
                    deleted.append(self._store.delete(self._store.find_hidden(name)))
                except NoSuchSegment:
                    pass
            done = self._end(id, transaction, TxnState.ABORTED)
        return gatherResults([done, *deleted], consumeErrors=True).addErrback(_first)

    def _end(self, id: bytes, transaction: Transaction, state: TxnState) -> Any:
        lease = self._leases.pop(id, None)
        if lease is not None and lease.active():
            lease.cancel()
        done = self._state.put_transaction(id, replace(transaction, state=state, ended=int(self._now() * 1000)))
        return done.addErrback(self._not_ended, id)

    def _not_ended(self, failure: Failure, id: bytes) -> Failure:
        """The disk is full: the transaction is open still, with a new lease."""
        transaction = self._state.transactions.get(id)
        if transaction is not None and transaction.is_open:
            self._lease(id, transaction.lease)
        return failure

    def _lease(self, id: bytes, milliseconds: int) -> None:
        running = self._leases.get(id)
        if running is not None and running.active():
            running.reset(milliseconds / 1000)
        else:
            self._leases[id] = self._core.clock.callLater(milliseconds / 1000, self._expire, id)

    def _expire(self, id: bytes) -> None:
        del self._leases[id]
        transaction = self._state.transactions.get(id)
        if transaction is not None and transaction.is_open:
            try:
                self._abort(id, transaction).addErrback(self._could_not_abort)
            except StoreError:
                self._could_not_abort(Failure())

    def _could_not_abort(self, failure: Failure) -> None:
        # It has another lease, or the store closes.
        failure.trap(StoreError)
        self._log.debug("a transaction could not be aborted: {error}", error=str(failure.value))

    # -- what is meant -------------------------------------------------------------------------------------------------

    def _find(
        self, peer: Ordered, named: wire.StreamInfo, txn: wire.TxnId, right: int
    ) -> tuple[bytes, Transaction | None]:
        id = (txn.high & (1 << 64) - 1).to_bytes(8) + (txn.low & (1 << 64) - 1).to_bytes(8)
        transaction = self._state.transactions.get(id)
        if transaction is None or (transaction.scope, transaction.stream) != (named.scope, named.stream):
            return id, None
        stream = self._state.find(named.scope, named.stream)
        self._allow(peer, named.scope, named.stream, 1 if stream is None else stream.segments, right)
        return id, transaction

    def _allow(self, peer: Ordered, scope: str, stream: str, segments: int, right: int) -> None:
        for id in range(segments):
            peer.allow(right, segment_name(scope, stream, id))

    def _pairs(self, transaction: Transaction, id: bytes) -> list[tuple[Segment, Segment]] | None:
        """The hidden segments with those that they go to; None where one is gone, or takes nothing more."""
        stream = self._state.find(transaction.scope, transaction.stream)
        if stream is None or stream.is_sealed:
            return None
        try:
            pairs = [
                (
                    self._store.find_hidden(name),
                    self._store.find(segment_name(transaction.scope, transaction.stream, number)),
                )
                for number, name in enumerate(_parts(transaction, id, stream.segments))
            ]
        except NoSuchSegment:
            return None
        return None if any(target.claimed_sealed for _, target in pairs) else pairs


def _parts(transaction: Transaction, id: bytes, segments: int) -> list[str]:
    return [
        transaction_name(segment_name(transaction.scope, transaction.stream, number), id) for number in range(segments)
    ]


def _first(failure: Failure) -> Failure:
    return failure.value.subFailure  # type: ignore[no-any-return, union-attr]
