"""Protocols are plugins: found, loaded late, and welcome from outside the package."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

from twisted.plugin import IPlugin
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from streamd.interfaces import IStreamProtocol
from streamd.plugin import ProtocolPlugin, found_protocols
from tests.rigs.daemon import CHECKOUT, Daemon

# A protocol and an endpoint of somebody else's. The factory is a plain Twisted one: it knows no drain.
_PLUGIN = '''
from dataclasses import dataclass

from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IStreamServerEndpoint, IStreamServerEndpointStringParser
from twisted.internet.protocol import Factory, Protocol
from twisted.plugin import IPlugin
from zope.interface import implementer

from streamd.tables import fill
from streamd.interfaces import IStreamProtocol
from streamd.settings import setting


@dataclass(frozen=True)
class Settings:
    greeting: str = setting("hello", "what it says")


class Greeter(Protocol):
    def connectionMade(self):
        self.transport.write(self.factory.greeting.encode())
        self.transport.loseConnection()


@implementer(IPlugin, IStreamProtocol)
class Greet:
    name = "greet"
    summary = "greets"
    default = "tcp:0:interface=127.0.0.1"

    def configure(self, table):
        return fill(Settings, table)

    def factory(self, core, settings):
        factory = Factory.forProtocol(Greeter)
        factory.greeting = settings.greeting
        return factory


@implementer(IPlugin, IStreamServerEndpointStringParser)
class Late:
    """An endpoint that finds out some time later that it can't listen."""

    prefix = "late"

    def parseStreamServer(self, reactor, *arguments):
        return LateEndpoint(reactor)


@implementer(IStreamServerEndpoint)
class LateEndpoint:
    def __init__(self, reactor):
        self.reactor = reactor

    def listen(self, factory):
        refused = Deferred()
        self.reactor.callLater(0, refused.errback, CannotListenError("here", 1, OSError(1, "too late")))
        return refused


greet = Greet()
late = Late()
'''


class ProviderTests(SynchronousTestCase):
    def test_ours(self) -> None:
        """Our own protocols are found, and each is what it says it is."""
        found = found_protocols()
        self.assertIn("sesp", [each.name for each in found])
        for each in found:
            verifyObject(IStreamProtocol, each)
            verifyObject(IPlugin, each)

    def test_lazy(self) -> None:
        """A provider whose module is not there is harmless until it is used."""
        provider = ProtocolPlugin("x", "no.such.module", "off", "nothing")
        self.assertRaises(ModuleNotFoundError, provider.configure, {})

    def test_cheap(self) -> None:
        """Loading the plugin file imports neither reactor, nor store, nor protocols: each twistd --help loads it."""
        script = """
            import json, sys
            from twisted.plugins import streamd_plugin
            wanted = ("streamd.", "twisted.internet.reactor")
            print(json.dumps([name for name in sys.modules if name.startswith(wanted)]))
        """
        command = [sys.executable, "-c", textwrap.dedent(script)]
        loaded = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=True).stdout
        expected = [
            "streamd.interfaces",
            "streamd.plugin",
            "streamd.quic",
            "streamd.quic.plugin",
            "streamd.tls",
            "streamd.tls.plugin",
        ]
        self.assertEqual(sorted(json.loads(loaded)), expected)


class ForeignTests(SynchronousTestCase):
    """A directory on PYTHONPATH with a plugin file in it is all that a protocol from outside needs."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).resolve()
        self.plugins = self.directory / "site" / "twisted" / "plugins"
        self.plugins.mkdir(parents=True)
        (self.plugins / "greet_plugin.py").write_text(_PLUGIN)

    def daemon(self, *options: str) -> Daemon:
        path = str(self.directory / "site")
        made = Daemon(str(self.directory / "run"), *options, environment={"PYTHONPATH": path})
        self.addCleanup(made.close)
        return made

    def greeting(self, daemon: Daemon) -> bytes:
        with daemon.connect("greet") as connection, connection.makefile("rb") as stream:
            return stream.read()

    def test_served(self) -> None:
        """It is served beside ours, by default, by option, by its table, and stopped without a drain."""
        daemon = self.daemon().start()
        self.assertEqual(self.greeting(daemon), b"hello")
        self.assertTrue(daemon.addresses("sesp"))
        self.assertEqual(daemon.terminate(), 0, daemon.output)
        config = self.directory / "streamd.toml"
        config.write_text('[sesp]\nendpoint = "off"\n[greet]\ngreeting = "good day"')
        daemon = self.daemon("--config", str(config), "--greet", "tcp:0:interface=127.0.0.1").start()
        self.assertEqual(self.greeting(daemon), b"good day")

    def test_off(self) -> None:
        """It can be turned off like ours."""
        self.assertEqual(self.daemon("--greet", "off").start().addresses("greet"), [])

    def test_its_keys(self) -> None:
        """Its table is checked by itself, and the error names file and key."""
        config = self.directory / "streamd.toml"
        config.write_text("[greet]\ngreting = 1")
        daemon = self.daemon("--config", str(config)).spawn()
        self.assertEqual(daemon.wait(), 1)
        self.assertEqual(daemon.errors, [f"streamd: {config}: greet.greting: no such key; did you mean greeting?"])

    def test_late(self) -> None:
        """An endpoint that fails only when the reactor runs ends the daemon all the same, with status 1."""
        daemon = self.daemon("--greet", "late:1").spawn()
        self.assertEqual(daemon.wait(), 1, daemon.output)
        self.assertEqual(daemon.errors, ["streamd: greet can't listen on late:1: too late"])
        self.assertNotIn("ready", daemon.output)
        self.assertNotIn("Traceback", daemon.output)

    def test_twice(self) -> None:
        """Two protocols of one name can't be told apart, so it says so and does not choose."""
        (self.plugins / "again_plugin.py").write_text(_PLUGIN)
        daemon = self.daemon().spawn()
        self.assertEqual(daemon.wait(), 1)
        self.assertEqual(daemon.errors, ["streamd: two plugins offer a protocol called greet"])
