"""The service: what is opened and closed, in which order, and what it does to its process."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from collections.abc import Callable, Generator, Mapping
from typing import Any

from twisted.application.service import Application
from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IProtocolFactory
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import EventLoggingObserver
from twisted.logger import ILogObserver, globalLogPublisher
from twisted.trial.unittest import TestCase
from zope.interface import alsoProvides, implementer

from streamd.config import Config, Endpoint
from streamd.connections.core import Core
from streamd.daemon.log import Log
from streamd.daemon.process import StartFailed
from streamd.interfaces import IDrained, IStreamProtocol
from streamd.service import StreamdService
from streamd.settings import Limits, LogSettings, StoreSettings
from streamd.store import StoreUnusable, open_store

LOOPBACK = "tcp:0:interface=127.0.0.1"
reactor: Any = installed
QUIET = Log(None, on_stderr=True)


@implementer(IStreamProtocol)
class Plain:
    """A protocol whose factory knows no drain, or the one it is given."""

    name = "plain"
    summary = "for these tests"
    default = LOOPBACK

    def __init__(self, drain: Callable[[], Deferred[None]] | None = None) -> None:
        self.drain = drain
        self.cores: list[Core] = []

    def configure(self, table: Mapping[str, object]) -> object:
        return None

    def factory(self, core: Core, settings: object) -> IProtocolFactory:
        self.cores.append(core)
        made = Factory.forProtocol(Protocol)
        made.noisy = False
        if self.drain is not None:
            made.drain = self.drain  # type: ignore[attr-defined]
            made.drain_seconds_max = 0.0  # type: ignore[attr-defined]
            alsoProvides(made, IDrained)
        return made


class ServiceTests(TestCase):
    def setUp(self) -> None:
        self.data_dir = os.path.abspath(self.mktemp())
        self.events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(self.events)
        self.addCleanup(globalLogPublisher.removeObserver, self.events)

    def service(self, protocol: IStreamProtocol, *endpoints: str, limits: Limits = Limits()) -> StreamdService:
        services = tuple(Endpoint(protocol, each, None) for each in endpoints)
        config = Config(self.data_dir, LogSettings(), StoreSettings(), limits, services)
        made = StreamdService(config, reactor, QUIET)
        self.addCleanup(made.stopService)
        return made

    def said(self) -> list[str]:
        return [event["log_format"] for event in self.events if "log_format" in event]

    def locked(self) -> bool:
        """Whether a daemon has the data directory."""
        try:
            store = open_store(self.data_dir, StoreSettings(), reactor, self.fail)
        except StoreUnusable:
            return True
        self.addCleanup(store.close)
        return False

    @inlineCallbacks
    def test_life(self) -> Generator[Deferred[None], None, None]:
        """It listens, says that it is ready, and after its stop nothing is left."""
        protocol = Plain()
        service = self.service(protocol, LOOPBACK, LOOPBACK)
        service.startService()
        self.assertEqual(len(service.ports), 2)
        yield _turn()  # trial may not run the reactor before the first wait
        self.assertIn("streamd ready", self.said())
        self.assertTrue(self.locked())
        self.assertIs(protocol.cores[0], protocol.cores[1])
        yield service.stopService()
        self.assertFalse(self.locked())

    @inlineCallbacks
    def test_order_of_stop(self) -> Generator[Deferred[None], None, None]:
        """First nobody can connect any more, then the factories drain, and the store is open until they have."""
        drained: Deferred[None] = Deferred()
        seen: list[list[bool]] = []

        def drain() -> Deferred[None]:
            seen.append([port.connected for port in service.ports])  # type: ignore[attr-defined]
            return drained

        service = self.service(Plain(drain), LOOPBACK, LOOPBACK)
        service.startService()
        port = service.ports[0]
        stopping = service.stopService()
        while not seen:
            yield _turn()
        self.assertEqual(seen, [[False, False], [False, False]])
        self.assertIsNotNone(port)
        self.assertTrue(self.locked())
        drained.callback(None)
        yield stopping
        self.assertFalse(self.locked())

    @inlineCallbacks
    def test_drain_that_fails(self) -> Generator[Deferred[None], None, None]:
        """A factory that can't drain, or never ends to, does not keep the store open."""
        codes: list[int] = []
        self.patch(sys.modules["streamd.service"], "exit_with", codes.append)
        self.patch(sys.modules["streamd.service"], "_DRAIN_GRACE_SECONDS", 0.0)

        def broken() -> Deferred[None]:
            raise ValueError("no drain")

        for drain, error in ((broken, ValueError), (Deferred, Exception)):
            service = self.service(Plain(drain), LOOPBACK, limits=Limits(drain_seconds_max=0.0))
            service.startService()
            yield service.stopService()
            self.assertEqual(len(self.flushLoggedErrors(error)), 1)
        self.assertEqual(codes, [1, 1])
        self.assertFalse(self.locked())

    @inlineCallbacks
    def test_port_in_use(self) -> Generator[Deferred[None], None, None]:
        """A port that can't be had ends the start and lets go of all that was opened before it."""
        first = self.service(Plain(), LOOPBACK)
        first.startService()
        taken = f"tcp:{first.ports[0].getHost().port}:interface=127.0.0.1"  # type: ignore[attr-defined]
        self.data_dir = os.path.abspath(self.mktemp())
        second = self.service(Plain(), LOOPBACK, taken)
        error = self.assertRaises(StartFailed, second.startService)
        self.assertEqual(str(error), f"plain can't listen on {taken}: Address already in use")
        self.assertEqual(error.code, 1)
        yield second.stopService()
        self.assertFalse(self.locked())

    @inlineCallbacks
    def test_broken_factory(self) -> Generator[Deferred[None], None, None]:
        """A bug in a protocol is raised as what it is, and the store is closed."""

        class Broken(Plain):
            def factory(self, core: Core, settings: object) -> IProtocolFactory:
                raise ZeroDivisionError

        service = self.service(Broken(), LOOPBACK)
        self.assertRaises(ZeroDivisionError, service.startService)
        yield service.stopService()
        self.assertFalse(self.locked())

    def test_store_unusable(self) -> None:
        """What the store says is what the operator reads."""
        os.mkdir(self.data_dir)
        with open(os.path.join(self.data_dir, "letter.txt"), "w"):
            pass
        service = self.service(Plain(), LOOPBACK)
        error = self.assertRaises(StartFailed, service.startService)
        self.assertIn(self.data_dir, str(error))
        self.assertEqual(service.ports, [])

    @inlineCallbacks
    def test_process(self) -> Generator[Deferred[None], None, None]:
        """What it changes in its process while it runs, it takes back."""

        def state() -> tuple[object, ...]:
            signals = (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)
            return gc.get_threshold(), gc.get_freeze_count(), sys.getswitchinterval(), limit, signals

        yield _turn()  # the reactor has its own signal handlers from here on
        gc.unfreeze()
        before = state()
        service = self.service(Plain(), LOOPBACK)
        service.startService()
        self.assertEqual(gc.get_threshold(), (50_000, 20, 100))
        self.assertGreater(gc.get_freeze_count(), 0)
        self.assertAlmostEqual(sys.getswitchinterval(), 0.0005)
        yield _turn()
        self.assertNotEqual(state()[-1], before[-1])
        yield service.stopService()
        self.assertEqual(state(), before)

    def test_observer(self) -> None:
        """An application that it joins gets its log observer, where it has one."""
        config = Config(self.data_dir, LogSettings(), StoreSettings(), Limits(), ())
        for observer in (self.events, None):
            application: Any = Application("x")
            StreamdService(config, reactor, Log(observer, True)).setServiceParent(application)
            self.assertIs(application.getComponent(ILogObserver, None), observer)


def _turn() -> Deferred[None]:
    """One turn of the reactor."""
    turned: Deferred[None] = Deferred()
    reactor.callLater(0, turned.callback, None)
    return turned
