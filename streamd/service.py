"""The life of the daemon: it opens the store, then listens; at the end it drains, and closes the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, FirstError, gatherResults, maybeDeferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.logger import ILogObserver, Logger
from twisted.python.components import Componentized
from twisted.python.failure import Failure

from streamd import __version__
from streamd.access.exposure import OPEN_TO_EVERYBODY, is_open_to_everybody
from streamd.access.peer import address_text
from streamd.access.permits import Access
from streamd.config import Config, Endpoint
from streamd.connections.core import Core
from streamd.connections.crowd import Crowd
from streamd.connections.factory import StreamFactory
from streamd.connections.load import Load
from streamd.connections.refusing import refusing
from streamd.daemon.log import Log
from streamd.daemon.notify import Notifier
from streamd.daemon.process import FILES_SPARE, Process, StartFailed, exit_with, fatal, tell
from streamd.daemon.reload import Reloader
from streamd.endpoints import completed
from streamd.groups import Delayed, Groups
from streamd.interfaces import IDrained, IEquipping
from streamd.loop import Loop
from streamd.metrics import LoopCounts
from streamd.store import Store, StoreUnusable, open_store
from streamd.store.believed import BelievedClock
from streamd.store.retention import Retention

# A factory's own drain ends within limits.drain_seconds_max. One that does not is left behind this much later.
_DRAIN_GRACE_SECONDS = 5.0

# How often a full disk is asked whether it has room.
_ROOM_SECONDS = 1.0


class Phase(Enum):
    """The phase of a service's life."""

    IDLE = auto()
    STARTING = auto()  # in startService, before the reactor runs: a failure is raised
    WAITING = auto()  # for the reactor, or for a listener that takes its time: a failure stops the daemon
    SERVING = auto()
    STOPPING = auto()


class StreamdService(Service):
    """The daemon's service: the store, and a listener for each configured endpoint."""

    _log = Logger()

    def __init__(
        self,
        config: Config,
        reactor: Any,
        log: Log,
        read: Callable[[], Config] | None = None,
        *,
        notifier: Notifier | None = None,
        loops: LoopCounts | None = None,
    ) -> None:
        """Make a service that serves `config`, and after SIGHUP what `read` returns."""
        self._config = config
        self._read = read or (lambda: config)
        self._reactor = reactor
        self._log_settings = log
        self._notifier = notifier or Notifier(None, None, reactor)
        self._loops = loops or LoopCounts()
        self._process = Process(reactor)
        self._phase = Phase.IDLE
        self._store: Store | None = None
        self._crowd: Crowd | None = None
        self._load = Load(config.limits)
        self._factories: list[IProtocolFactory] = []
        self._starting: Deferred[Any] | None = None
        self._stopping: Deferred[None] | None = None
        self._failure: Failure | None = None
        self._reloader: Reloader | None = None
        self._room: Loop | None = None
        self._delayed: Delayed | None = None
        self.ports: list[IListeningPort] = []

    def setServiceParent(self, parent: Any) -> None:
        """Join an application, and give it our log observer: twistd asks it for one before it makes its own."""
        if self._log_settings.observer is not None and isinstance(parent, Componentized):
            parent.setComponent(ILogObserver, self._log_settings.observer)
        super().setServiceParent(parent)  # type: ignore[no-untyped-call]

    def startService(self) -> None:
        """Open the store, which may take the time of a recovery, and listen. StartFailed says what failed."""
        super().startService()  # type: ignore[no-untyped-call]
        self._phase = Phase.STARTING
        limits, settings = self._config.limits, self._config.store
        self._process.prepare(limits.connections_max + settings.open_files_max + FILES_SPARE)
        try:
            self._notifier.status(f"opening {self._config.data_dir}")
            self._store = self._open_store()
            self._crowd = Crowd(self._reactor, self._store.turn)
            now = self._reactor.seconds()
            core = Core(
                self._store,
                limits,
                self._load,
                self._reactor,
                now,
                access=Access(self._config.access, now),
                loops=self._loops,
                serving=lambda: self._phase is Phase.SERVING,
            )
            Groups.of(core).rules.replace(self._config.groups)
            self._delayed = Delayed.of(core)
            reloader = self._reloader = Reloader(self._config, self._read, core, self._log_settings.set_level)
            self._starting = _all(self._listen(endpoint, core, reloader) for endpoint in self._config.services)
            self._starting.addErrback(self._failed)
            if self._failure is not None:
                self._failure.raiseException()
        except Exception as error:
            if isinstance(error, StartFailed):
                self._report(Failure())
            # Nobody calls stopService after this. The process ends and takes with it what can't be closed by then.
            self.stopService()
            raise
        self._process.settle()
        self._phase = Phase.WAITING
        self._reactor.callWhenRunning(self._run)

    def stopService(self) -> Deferred[None]:
        """Stop listening, let the connections finish, and close the store."""
        super().stopService()  # type: ignore[no-untyped-call]
        if self._stopping is None:
            self._stopping = Deferred.fromCoroutine(self._stop())
        return self._stopping

    def _open_store(self) -> Store:
        try:
            return open_store(self._config.data_dir, self._config.store, self._reactor, fatal)
        except StoreUnusable as error:
            raise StartFailed(str(error))
        except OSError as error:
            raise StartFailed(f"{error.filename or self._config.data_dir}: {error.strerror or error}")

    def _listen(self, endpoint: Endpoint, core: Core, reloader: Reloader) -> Deferred[None]:
        """Begin to listen on one endpoint. TCP and unix sockets listen at once, other kinds may take longer."""

        def open_port() -> Deferred[IListeningPort]:
            server = serverFromString(self._reactor, completed(endpoint.endpoint))
            if IEquipping.providedBy(factory):
                server = factory.equip(server, self._config.data_dir)
            reloader.watch(name, server)
            listening: Deferred[IListeningPort] = server.listen(refusing(endpoint.endpoint, factory))
            return listening

        def opened(port: IListeningPort) -> None:
            self.ports.append(port)
            core.addresses.setdefault(name, []).append(port.getHost())
            if self._crowd is not None and isinstance(getattr(port, "factory", None), StreamFactory):
                # Nothing is wrapped around the protocol: its connections are plain sockets.
                self._crowd.adopt(port)
            if is_open_to_everybody(self._config, endpoint.endpoint, port.getHost()):
                raise StartFailed(f"{name} on {address_text(port.getHost())} {OPEN_TO_EVERYBODY}")
            reloader.listens(name, endpoint.endpoint, port.getHost())
            self._log.info("{service} listens on {address}", service=name, address=address_text(port.getHost()))

        def refused(failure: Failure) -> None:
            failure.trap(CannotListenError, OSError)
            raise StartFailed(f"{name} can't listen on {endpoint.endpoint}: {_reason(failure)}")

        name = endpoint.protocol.name
        core.load.traffic_of(name)  # also what nobody has spoken yet is counted: as nothing
        factory = endpoint.protocol.factory(core, endpoint.settings)
        self._factories.append(factory)
        return maybeDeferred(open_port).addCallbacks(opened, refused)

    def _run(self) -> None:
        """Take signals and announce readiness, now that the reactor runs."""
        self._process.take_signals(self._reload)
        if self._store is not None:
            self._start_background(self._store)
        assert self._starting is not None
        self._starting.addCallback(self._ready)

    def _reload(self) -> None:
        assert self._reloader is not None
        with self._notifier.reloading():
            self._reloader.reload()

    def _start_background(self, store: Store) -> None:
        """Start the store's periodic jobs and its compactor."""
        if store.compaction is not None:
            store.compaction.start()
        settings = self._config.store
        store.retention = Retention(
            store,
            self._config.retention,
            interval_seconds=settings.retention_seconds,
            hidden_seconds_max=settings.hidden_seconds_max,
            clock=self._reactor,
            now=BelievedClock(lambda: store.timestamp, time.time, time.monotonic),
            loops=self._loops,
        )
        store.retention.start()
        if self._delayed is not None:
            self._delayed.start()
        self._room = Loop("room", store.seek_room, self._reactor, self._loops)
        self._room.start(_ROOM_SECONDS, now=False)

    def _ready(self, _: object) -> None:
        if self._phase is Phase.WAITING:
            self._phase = Phase.SERVING
            self._log.info("streamd ready", version=__version__, data_dir=self._config.data_dir)
            self._notifier.ready(self._status)

    def _status(self) -> str:
        """The status line for the service manager."""
        assert self._store is not None
        counts = f"segments {len(self._store)}, connections {self._load.connections}, commits {self._store.commits}"
        return f"{counts}, writes are refused" if self._store.read_only else counts

    def _failed(self, failure: Failure) -> None:
        if self._phase is Phase.STARTING:
            self._failure = failure
        elif self._phase is Phase.WAITING:
            self._report(failure)
            self._phase = Phase.STOPPING
            exit_with(1)
            self._reactor.callWhenRunning(self._process.stop)

    def _report(self, failure: Failure) -> None:
        """Report why the daemon can't start: in the log, and on standard error unless the log goes there."""
        reason = failure.getErrorMessage()
        if isinstance(failure.value, StartFailed):
            self._log.critical("{reason}", reason=reason)
        else:
            self._log.failure("can't start", failure)
        self._notifier.status(reason)
        if not self._log_settings.on_stderr:
            tell(reason)

    async def _stop(self) -> None:
        served = self._phase is Phase.SERVING
        self._phase = Phase.STOPPING
        if served:
            self._log.info("streamd stopping")
            self._notifier.stopping()
        if self._starting is not None:
            self._starting.cancel()
        await self._each("stop listening", [port.stopListening for port in self.ports])
        await self._each("drain", [factory.drain for factory in self._drained])
        if self._room is not None:
            self._room.stop()
        if self._delayed is not None:
            self._delayed.stop()
        if self._store is not None:
            await self._each("close the store", [self._store.close])
        if self._crowd is not None:
            self._crowd.close()
        self._notifier.close()
        self._process.restore()
        if served:
            self._log.info("streamd stopped")

    async def _each(self, what: str, calls: list[Callable[[], Any]]) -> None:
        """Call functions, and wait for all of them. Failures are logged and stop nothing: the store must be closed."""
        waiting = []
        for call in calls:
            done = maybeDeferred(call)
            if what == "drain":
                done.addTimeout(self._drain_seconds_max + _DRAIN_GRACE_SECONDS, self._reactor)
            waiting.append(done.addErrback(self._could_not, what))
        await DeferredList(waiting)

    @property
    def _drain_seconds_max(self) -> float:
        """The longest drain time that a factory asks for, at least the limit of the configuration."""
        limit = (self._config if self._reloader is None else self._reloader.config).limits.drain_seconds_max
        return max([limit, *[factory.drain_seconds_max for factory in self._drained]])

    @property
    def _drained(self) -> list[IDrained]:
        return [factory for factory in self._factories if IDrained.providedBy(factory)]

    def _could_not(self, failure: Failure, what: str) -> None:
        self._log.failure("could not {what}", failure, what=what)
        exit_with(1)


def _all(several: Iterable[Deferred[None]]) -> Deferred[Any]:
    """Fires when all Deferreds have, and fails as soon as one does."""

    def first(failure: Failure) -> Failure:
        return failure.value.subFailure if isinstance(failure.value, FirstError) else failure

    return gatherResults(list(several), consumeErrors=True).addErrback(first)


def _reason(failure: Failure) -> str:
    """The operating system's words for an error, without the address, which the endpoint names already."""
    error = failure.value
    cause = error.socketError if isinstance(error, CannotListenError) else error
    return str(cause.strerror) if isinstance(cause, OSError) and cause.strerror else str(cause)
