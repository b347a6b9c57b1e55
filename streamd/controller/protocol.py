"""Pravega's controller over a stream: gRPC calls, each answered when what it changed is on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IProtocolNegotiationFactory
from zope.interface import implementer

from streamd.access.permits import NotAllowed
from streamd.connections.base import Reply, StreamProtocol
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.controller.state import State
from streamd.controller.streams import Streams
from streamd.controller.transactions import TooManyTransactions, Transactions
from streamd.interfaces import ConfigError, RequestError
from streamd.settings import setting
from streamd.store import NoSuchSegment, SegmentSealed, StoreError, StoreReadOnly
from streamd.tables import fill
from streamd.wire.controller import messages as wire
from streamd.wire.controller.grpc import BadCall, Call, Code, Control, GrpcCodec
from streamd.wire.controller.grpc import Request as Incoming

# What a call may hold: the largest is a stream cut.
_MESSAGE_BYTES_MAX: Final = 1 << 20

_ANYWHERE: Final = ("0.0.0.0", "::", "")


class FixedSegments(StoreError):
    """A stream was to be scaled."""


_CODES: Final[tuple[tuple[type[RequestError], Code], ...]] = (
    (NotAllowed, Code.PERMISSION_DENIED),
    (NoSuchSegment, Code.NOT_FOUND),
    (SegmentSealed, Code.FAILED_PRECONDITION),
    (StoreReadOnly, Code.UNAVAILABLE),
    (TooManyTransactions, Code.RESOURCE_EXHAUSTED),
    (FixedSegments, Code.UNIMPLEMENTED),
)


@dataclass(frozen=True)
class ControllerSettings:
    """``[controller]``, beside the endpoint."""

    advertise: str = setting(
        "", "HOST:PORT of the segment store for clients; where empty, the address that [pravega] listens on"
    )
    segments_max: int = setting(1000, "how many segments a stream may have", least=1)
    lease_seconds_max: float = setting(600.0, "the longest lease that a transaction is given", least=1)
    transaction_seconds_max: float = setting(
        86400.0, "a transaction gets no new lease when it is this old, and is aborted", least=1
    )
    transactions_max: int = setting(10_000, "how many transactions may be open", least=1)
    ended_seconds_max: float = setting(
        86400.0, "how long it is remembered whether a transaction was committed or aborted", least=1
    )


class Controller:
    """What the endpoints of the controller have in common."""

    def __init__(self, core: Core, settings: ControllerSettings) -> None:
        self.core = core
        self.state = State(core.store)
        self.streams = Streams(core.store, self.state, settings.segments_max)
        self.transactions = Transactions(
            core,
            self.state,
            time.time,
            lease_seconds_max=settings.lease_seconds_max,
            transaction_seconds_max=settings.transaction_seconds_max,
            transactions_max=settings.transactions_max,
            ended_seconds_max=settings.ended_seconds_max,
        )


class ControllerProtocol(StreamProtocol):
    """One connection of a client."""

    name = "controller"
    # HTTP/2 begins with a line of its own, which no page in a browser can send.
    refused_greetings = tuple(each for each in StreamProtocol.refused_greetings if each != b"PRI ")

    def __init__(self, core: Core, controller: Controller, settings: ControllerSettings) -> None:
        self._grpc = GrpcCodec(wire.SERVICE, wire.CALLS, _MESSAGE_BYTES_MAX)
        super().__init__(core, self._grpc)
        self._controller = controller
        self._settings = settings

    def perform(self, request: Incoming) -> Reply:
        if isinstance(request, Control):
            return self._grpc.control()
        if isinstance(request, BadCall):
            self.count_invalid()
            return self._grpc.refuse(request.stream, request.code, request.text)
        answer = self._called(request)
        return answer.addCallback(lambda message: self._grpc.reply(request.stream, message))

    def _called(self, call: Call) -> Deferred[Any]:
        # What others have changed is seen when it is on disk.
        settled = self._controller.state.settled()
        return settled.addCallback(lambda _: maybeDeferred(_CALLS[call.method], self, call.message))

    def refused(self, request: Call, error: RequestError) -> bytes:
        code = next((code for kind, code in _CODES if isinstance(error, kind)), Code.INVALID_ARGUMENT)
        return self._grpc.refuse(request.stream, code, f"{type(error).__name__}: {error}")

    # -- calls that are about no stream --------------------------------------------------------------------------------

    def uri(self, call: wire.SegmentId) -> wire.NodeUri:
        """Where segments are served."""
        host, port = self._advertised()
        return wire.NodeUri(host, port)

    def _advertised(self) -> tuple[str, int]:
        if self._settings.advertise:
            host, _, port = self._settings.advertise.rpartition(":")
            return host, int(port)
        for address in self.core.addresses.get("pravega", []):
            if hasattr(address, "port"):
                # Who reached us under an address reaches the segment store there, too.
                reached = getattr(self.transport.getHost(), "host", "127.0.0.1")
                return (reached if address.host in _ANYWHERE else address.host), address.port  # type: ignore[attr-defined]
        raise StoreError("the segment store listens on no TCP port: set controller.advertise")

    def servers(self, call: object) -> wire.NodeUris:
        """Where controllers are: here."""
        here = self.transport.getHost()
        return wire.NodeUris((wire.NodeUri(getattr(here, "host", ""), getattr(here, "port", 0)),))

    def seal(self, call: wire.StreamInfo) -> Any:
        """Seal a stream, and abort its transactions."""
        sealed = self._controller.streams.seal_stream(self, call)
        if isinstance(sealed, Deferred):
            self._controller.transactions.abort_all(call.scope, call.stream)
        return sealed

    def scale(self, call: object) -> Any:
        """Segments are never split or merged."""
        raise FixedSegments("the segments of a stream are fixed: make a stream with as many as it needs")


def _streams(method: Callable[[Streams, Any, Any], Any]) -> Callable[[ControllerProtocol, Any], Any]:
    return lambda self, call: method(self._controller.streams, self, call)


def _transactions(method: Callable[[Transactions, Any, Any], Any]) -> Callable[[ControllerProtocol, Any], Any]:
    return lambda self, call: method(self._controller.transactions, self, call)


_CALLS: Final[dict[str, Callable[[ControllerProtocol, Any], Any]]] = {
    "getControllerServerList": ControllerProtocol.servers,
    "createStream": _streams(Streams.create_stream),
    "updateStream": _streams(Streams.update_stream),
    "truncateStream": _streams(Streams.truncate_stream),
    "sealStream": ControllerProtocol.seal,
    "deleteStream": _streams(Streams.delete_stream),
    "getStreamConfiguration": _streams(Streams.configuration),
    "getCurrentSegments": _streams(Streams.current_segments),
    "getEpochSegments": _streams(Streams.epoch_segments),
    "getSegments": _streams(Streams.segments_at),
    "getSegmentsImmediatlyFollowing": _streams(Streams.successors),
    "getSegmentsImmediatelyFollowing": _streams(Streams.successors),
    "getSegmentsBetween": _streams(Streams.segments_between),
    "scale": ControllerProtocol.scale,
    "checkScale": ControllerProtocol.scale,
    "getURI": ControllerProtocol.uri,
    "isSegmentValid": _streams(Streams.is_valid),
    "isStreamCutValid": _streams(Streams.is_cut_valid),
    "createTransaction": _transactions(Transactions.begin),
    "commitTransaction": _transactions(Transactions.commit),
    "abortTransaction": _transactions(Transactions.abort),
    "pingTransaction": _transactions(Transactions.ping),
    "checkTransactionState": _transactions(Transactions.state_of),
    "createScope": _streams(Streams.create_scope),
    "deleteScope": _streams(Streams.delete_scope),
    "checkScopeExists": _streams(Streams.scope_exists),
    "listScopes": _streams(Streams.list_scopes),
    "checkStreamExists": _streams(Streams.stream_exists),
    "listStreamsInScope": _streams(Streams.list_streams),
    "listStreamsInScopeForTag": _streams(Streams.list_tagged),
    "getDelegationToken": lambda self, call: wire.DelegationToken(),
}
assert _CALLS.keys() == wire.CALLS.keys()


@implementer(IProtocolNegotiationFactory)
class ControllerFactory(StreamFactory):
    """Makes connections to the controller."""

    name = ControllerProtocol.name

    def __init__(self, core: Core, settings: ControllerSettings) -> None:
        super().__init__(core)
        self._settings = settings
        shared = core.shared.get(("controller", ""))
        if shared is None:
            shared = core.shared["controller", ""] = Controller(core, settings)
            shared.transactions.start()
        self._controller: Controller = shared

    def acceptableProtocols(self) -> list[bytes]:
        """What TLS agrees on: clients of gRPC insist on it."""
        return [b"h2"]

    def build(self) -> ControllerProtocol:
        return ControllerProtocol(self.core, self._controller, self._settings)

    def drain(self) -> Deferred[Any]:
        """End all connections, and let no lease end any more."""
        self._controller.transactions.stop()
        return super().drain()


def configure(table: Mapping[str, object]) -> ControllerSettings:
    """The settings of one ``[controller]`` table."""
    settings = fill(ControllerSettings, table)
    host, _, port = settings.advertise.rpartition(":")
    if settings.advertise and not (host and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ConfigError(f'advertise: expected "HOST:PORT", got "{settings.advertise}"')
    return settings


def factory(core: Core, settings: object) -> ControllerFactory:
    """The factory for one endpoint."""
    assert isinstance(settings, ControllerSettings)
    return ControllerFactory(core, settings)
