"""Listeners that others can reach, and sockets on this machine."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Generator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from twisted.internet import reactor as installed
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.trial.unittest import SynchronousTestCase, TestCase

from streamd import config
from streamd.access.exposure import is_exposed, unmatched_rules
from streamd.config import Config, Endpoint
from streamd.daemon.log import Log
from streamd.daemon.process import StartFailed
from streamd.plugin import found_protocols
from streamd.service import StreamdService
from streamd.settings import AccessRule, Limits, LogSettings, StoreSettings
from tests.rigs.access.authority import Authority
from tests.rigs.access.daemon_case import EVERYTHING, LOOPBACK, DaemonCase
from tests.rigs.cli.run import ctl

reactor: Any = installed
NAMES = [each.name for each in found_protocols()]
ANYWHERE = 'endpoint = "tcp:0"\n'
RULE = f'[[access]]\nwho = "net:127.0.0.0/8"\nallow = {EVERYTHING}\n'


class ExposedTests(SynchronousTestCase):
    """Who can be reached, and how."""

    def test_addresses(self) -> None:
        """Loopback is not, and neither is a path; all addresses are, and any other one."""
        for address, expected in (
            (IPv4Address("TCP", "127.0.0.1", 1), False),
            (IPv4Address("TCP", "127.9.9.9", 1), False),
            (IPv6Address("TCP", "::1", 1), False),
            (IPv6Address("TCP", "::ffff:127.0.0.1", 1), False),
            (UNIXAddress("/run/x"), False),
            (IPv4Address("TCP", "0.0.0.0", 1), True),
            (IPv4Address("TCP", "10.0.0.1", 1), True),
            (IPv6Address("TCP", "::", 1), True),
        ):
            self.assertIs(is_exposed("tcp:1", address), expected, address)

    def test_encrypted(self) -> None:
        """What is encrypted is not, wherever it listens."""
        anywhere = IPv4Address("TCP", "0.0.0.0", 1)
        for endpoint in ("ssl:1", "tlsfile:1:privateKey=k", "quic:1", "tls:d:port=1", "haproxy:ssl:1"):
            self.assertFalse(is_exposed(endpoint, anywhere), endpoint)
        for endpoint in ("tcp:1", "tcp6:1", "haproxy:tcp:1", "systemd:domain=INET:index=0"):
            self.assertTrue(is_exposed(endpoint, anywhere), endpoint)


class StartTests(DaemonCase):
    """What the daemon does with them."""

    def test_refused(self) -> None:
        """Open to everybody: it does not start, ends with status 1, and says in one line what to do."""
        daemon = self.daemon(f"[sesp]\n{ANYWHERE}").spawn()
        self.assertEqual(daemon.wait(), 1, daemon.output)
        (said,) = [line for line in daemon.errors if "sesp" in line]
        self.assertRegex(said, r"^streamd: sesp on 0\.0\.0\.0:\d+ would be open to everybody: .*insecure = true")
        self.assertNotIn("Traceback", daemon.output)
        self.assertNotIn("streamd ready", daemon.output)

    def test_insecure(self) -> None:
        """Unless it is told to: in the file, or on the command line."""
        for text, options in ((f"insecure = true\n[sesp]\n{ANYWHERE}", ()), (f"[sesp]\n{ANYWHERE}", ("--insecure",))):
            daemon = self.daemon(text, *options).start()
            self.assertEqual(self.ask(self.connect(daemon), "$0"), ["+"])
            self.assertEqual(daemon.terminate(), 0)

    def test_rules(self) -> None:
        """Or there is a rule; who no rule fits is refused."""
        daemon = self.daemon(f"{RULE}[sesp]\n{ANYWHERE}").start()
        self.assertEqual(self.ask(self.connect(daemon), "#a"), ["+"])

    def test_dashboard(self) -> None:
        """So it is with the dashboard: not open to everybody, unless there is a rule."""
        daemon = self.daemon(f"[http]\n{ANYWHERE}").spawn()
        self.assertEqual(daemon.wait(), 1, daemon.output)
        self.assertRegex(daemon.output, r"http on 0\.0\.0\.0:\d+ would be open to everybody")
        self.assertEqual(self.daemon(f"{RULE}[http]\n{ANYWHERE}").start().terminate(), 0)


class CheckTests(TestCase):
    """``streamctl config check`` and the daemon are of one mind."""

    @inlineCallbacks
    def test_same(self) -> Generator[Deferred[Any], Any, None]:
        """What the one refuses as open to everybody the other does, and what the one takes the other takes."""
        place = TemporaryDirectory()
        self.addCleanup(place.cleanup)
        key = Authority(Path(place.name)).issue("server")
        endpoints = (
            *("tcp:0", "tcp:0:interface=127.0.0.1", "tcp:port=0:interface=127.0.0.1", "tcp:0:127.0.0.1"),
            *("tcp:0:interface=0.0.0.0", "tcp6:0", "tcp6:0:interface=::1", "tcp:0:interface=localhost"),
            *("haproxy:tcp:0", "haproxy:tcp:0:interface=127.0.0.1", "unix:DIRECTORY/s", "unix:DIRECTORY/t:600"),
            *("ssl:0:privateKey=KEY", "tlsfile:0:privateKey=KEY"),
        )
        guards = ("", "insecure = true\n", RULE)
        for service, endpoint, guard in [
            *product(("sesp",), endpoints, ("",)),
            *product(("sesp", "http"), ("tcp:0", "tcp6:0"), guards),
        ]:
            stated = endpoint.replace("::1", r"\\:\\:1").replace("DIRECTORY", place.name).replace("KEY", str(key))
            others = "".join(f'[{name}]\nendpoint = "off"\n' for name in NAMES if name != service)
            text = f'data_dir = "{place.name}/data"\n[{service}]\nendpoint = "{stated}"\n{others}'
            text = text + guard if guard.startswith("[") else guard + text
            file = Path(place.name, "streamd.toml")
            file.write_text(text)
            checked = ctl("config", "check", str(file))
            loaded = config.load(str(file), config.Overrides(), found_protocols(), reactor)
            daemon = StreamdService(loaded, reactor, Log(None, on_stderr=True))
            try:
                daemon.startService()
                started = True
            except StartFailed as error:
                self.assertIn("would be open to everybody", str(error))
                started = False
            yield daemon.stopService()
            self.assertEqual(checked.status == 0, started, (text, checked.err))
            self.assertTrue(started or not guard, text)
            if not started:
                self.assertIn(f"line 3: {service}.endpoint: it would be open to everybody", checked.err)


class UnmatchedTests(SynchronousTestCase):
    """Rules that nobody fits who can connect."""

    def unmatched(self, who: str, *endpoints: str) -> bool:
        """Whether a rule for these peers is one, with listeners at these endpoints."""
        protocol = next(iter(found_protocols()))
        services = tuple(Endpoint(protocol, each, None) for each in endpoints)
        rule = AccessRule(who, ("read",))
        return bool(unmatched_rules(Config("data", LogSettings(), StoreSettings(), Limits(), services, access=(rule,))))

    def test_who(self) -> None:
        """A certificate that nobody asks for, a user without a unix socket, an address that no listener can see."""
        for who, fitting, others in (
            (
                "cert:x",
                ["tlsfile:1:privateKey=k:clientCA=c", "other:1"],
                ["tcp:1", "tlsfile:1:privateKey=k", "ssl:1", "quic:1", "unix:/s", "tls:d:port=1"],
            ),
            (
                "user:0",
                ["unix:/s", "systemd:domain=UNIX:name=s", "haproxy:unix:/s", "other:1"],
                ["tcp:1", "tlsfile:1:privateKey=k:clientCA=c", "systemd:domain=INET:name=s", "quic:1"],
            ),
            (
                "net:127.0.0.1",
                ["tcp:1", "tcp:1:interface=127.0.0.1", "tcp:1:127.0.0.2", "tcp:1:interface=localhost", "tcp6:1"],
                ["unix:/s", r"tcp:1:interface=\:\:1", "systemd:domain=UNIX:name=s"],
            ),
            (
                "net:10.0.0.0/8",
                ["tcp:1", "quic:1", "tcp:1:interface=10.0.0.1", "tcp6:1", "haproxy:tcp:1:interface=127.0.0.1", "tls:d"],
                ["tcp:1:interface=127.0.0.1", "quic:1:interface=127.0.0.1", "tcp6:1:interface=2001\\:db8\\:\\:1"],
            ),
            (
                "net:2001:db8::/32",
                ["tcp6:1", r"tcp:1:interface=\:\:", "systemd:domain=INET6:name=s", "tcp:1:interface=my.example"],
                ["tcp:1", "tlsfile:1:privateKey=k", r"tcp6:1:interface=\:\:1", "tcp:1:interface=10.0.0.1"],
            ),
            ("net:::ffff:10.0.0.0/104", [], ["tcp:1", "tcp6:1", "haproxy:tcp:1"]),
            ("net:0.0.0.0/0", ["tcp:1:interface=127.0.0.1"], ["unix:/s"]),
            ("anyone", ["unix:/s", "tcp:1:interface=127.0.0.1"], []),
        ):
            for endpoint in fitting:
                self.assertFalse(self.unmatched(who, endpoint), (who, endpoint))
                self.assertFalse(self.unmatched(who, *others, endpoint), (who, endpoint))
            for endpoint in others:
                self.assertTrue(self.unmatched(who, endpoint), (who, endpoint))
            self.assertEqual(self.unmatched(who, *others), bool(others))


class UnixTests(DaemonCase):
    """Sockets in the file system."""

    def test_mode(self) -> None:
        """Owner and group may connect, others not; unless the endpoint says otherwise."""
        plain, other = self.directory / "plain", self.directory / "other"
        self.daemon(f'[sesp]\nendpoint = ["unix:{plain}", "unix:{other}:mode=600", "{LOOPBACK}"]\n').start()
        modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (plain, other)]
        self.assertEqual(modes, [0o660, 0o600])

    def test_user(self) -> None:
        """Rules go by the user at the other end; over TCP there is none."""
        name = pwd.getpwuid(os.getuid()).pw_name
        daemon = self.daemon(
            f'[sesp]\nendpoint = ["unix:{self.directory}/s", "{LOOPBACK}"]\n'
            f'[[access]]\nwho = "user:{name}"\nallow = {EVERYTHING}\ntopics = ["a"]\n'
            f'[[access]]\nwho = "user:{os.getuid() + 1}"\nallow = {EVERYTHING}\n'
        ).start()
        self.assertEqual(self.ask(self.connect(daemon), "#a", "#b"), ["+", "-NotAllowed"])
        self.assertEqual(self.ask(self.connect(daemon, at=1), "@a"), ["-NotAllowed"])
