"""What the controller knows: scopes, streams and transactions, each an attribute of one segment of the store.

The attributes are `streamd.wire.controller.protobuf` messages, by keys that begin with their kind. A change is made in
memory at once, as the next caller finds it, and answered when it is on disk; who asks waits until all changes are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from streamd.store import RequestTooLarge, Segment, Store, StoreError
from streamd.store.names import KEY_BYTES_MAX, VALUE_BYTES_MAX
from streamd.wire.controller import protobuf
from streamd.wire.controller.messages import StreamConfig, TxnState
from streamd.wire.controller.protobuf import integer, message, text

SEGMENT: Final = "_pravega/controller"
"""The segment whose attributes all of this is."""

_SCOPE, _STREAM, _TRANSACTION = b"scope:", b"stream:", b"txn:"

T = TypeVar("T", bound=protobuf.Message)


@dataclass(frozen=True)
class Scope(protobuf.Message):
    """A scope; `order` counts up with each scope or stream that is made."""

    order: int = integer(1)


@dataclass(frozen=True)
class Stream(protobuf.Message):
    """A stream with its segments, which are as many as it was made with."""

    order: int = integer(1)
    segments: int = integer(2)
    is_sealed: int = integer(3)
    config: StreamConfig = message(4, StreamConfig, StreamConfig())


@dataclass(frozen=True)
class Transaction(protobuf.Message):
    """A transaction. Times are in milliseconds since 1970."""

    scope: str = text(1)
    stream: str = text(2)
    state: int = integer(3)
    lease: int = integer(4)
    begun: int = integer(5)
    ended: int = integer(6)

    @property
    def is_open(self) -> bool:
        """Whether it is neither committed nor aborted."""
        return self.state == TxnState.OPEN


class State:
    """All of it, in memory and in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending = 0
        self._waiting: list[Deferred[None]] = []
        self.scopes: dict[str, Scope] = {}
        self.streams: dict[str, dict[str, Stream]] = {}
        """By scope and name, in the order of their creation."""
        self.transactions: dict[bytes, Transaction] = {}
        self._order = 0
        self._load()

    def _load(self) -> None:
        """Take up what is in the store."""
        segment = self._store.find_claimed(SEGMENT)
        stored = dict((segment.attributes if segment is not None else None) or {})
        scopes = _of_kind(stored, _SCOPE, Scope)
        streams = _of_kind(stored, _STREAM, Stream)
        self.scopes = dict(sorted(scopes.items(), key=lambda each: each[1].order))
        self.streams = {scope: {} for scope in self.scopes}
        for stream in sorted(streams.values(), key=lambda each: each.order):
            named = stream.config.stream
            self.streams.setdefault(named.scope, {})[named.stream] = stream
        self.transactions = {
            key[len(_TRANSACTION) :]: protobuf.decode(Transaction, value)
            for key, value in stored.items()
            if key.startswith(_TRANSACTION)
        }
        orders = [scope.order for scope in scopes.values()] + [stream.order for stream in streams.values()]
        self._order = max(orders, default=0)

    def next_order(self) -> int:
        """A number above those of all scopes and streams."""
        self._order += 1
        return self._order

    def settled(self) -> Deferred[None]:
        """Fires when all changes are on disk, or have failed."""
        if not self._pending:
            return succeed(None)
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        return waiting

    def find(self, scope: str, stream: str) -> Stream | None:
        """The stream of that name."""
        return self.streams.get(scope, {}).get(stream)

    # -- changes: to be called inside `Store.together`, where others go with them --------------------------------------

    def put_scope(self, name: str, scope: Scope | None) -> Deferred[None]:
        """Set a scope, or remove it."""
        done = self._put(_SCOPE + name.encode(), scope)
        if scope is None:
            self.scopes.pop(name, None)
            self.streams.pop(name, None)
        else:
            self.scopes[name] = scope
            self.streams.setdefault(name, {})
        return done

    def put_stream(self, scope: str, name: str, stream: Stream | None) -> Deferred[None]:
        """Set a stream, or remove it."""
        done = self._put(_STREAM + f"{scope}/{name}".encode(), stream)
        if stream is None:
            self.streams[scope].pop(name, None)
        else:
            self.streams[scope][name] = stream
        return done

    def put_transaction(self, id: bytes, transaction: Transaction | None) -> Deferred[None]:
        """Set a transaction, or remove it."""
        done = self._put(_TRANSACTION + id, transaction)
        if transaction is None:
            self.transactions.pop(id, None)
        else:
            self.transactions[id] = transaction
        return done

    def _put(self, key: bytes, value: protobuf.Message | None) -> Deferred[None]:
        data = None if value is None else protobuf.encode(value)
        if len(key) > KEY_BYTES_MAX or len(data or b"") > VALUE_BYTES_MAX:
            raise RequestTooLarge("a name or a configuration is too long")
        done = self._store.set_attribute(self._segment(), key, data)
        self._pending += 1
        return done.addBoth(self._ended)

    def _segment(self) -> Segment:
        segment = self._store.find_claimed(SEGMENT)
        if segment is None:
            self._store.create(SEGMENT).addErrback(lambda failure: failure.trap(StoreError))
            segment = self._store.find_claimed(SEGMENT)
            assert segment is not None
        return segment

    def _ended(self, result: Any) -> Any:
        self._pending -= 1
        if isinstance(result, Failure):
            # All that was pending has failed with it.
            self._load()
        if not self._pending:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each.callback(None)
        return result


def _of_kind(stored: dict[bytes, bytes], prefix: bytes, kind: type[T]) -> dict[str, T]:
    return {
        key[len(prefix) :].decode(): protobuf.decode(kind, value)
        for key, value in stored.items()
        if key.startswith(prefix)
    }
