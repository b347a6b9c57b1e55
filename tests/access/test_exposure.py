"""Listeners that others can reach, and sockets on this machine."""

from __future__ import annotations

import os
import pwd
import stat

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.trial.unittest import SynchronousTestCase

from streamd.access.exposure import is_exposed, with_mode
from tests.access.daemon_case import EVERYTHING, LOOPBACK, DaemonCase

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

    def test_mode(self) -> None:
        """A unix socket without a mode gets one; a path may look like a mode."""
        for endpoint, expected in (
            ("unix:/s", "unix:/s:mode=660"),
            ("unix:address=/s:lockfile=0", "unix:address=/s:lockfile=0:mode=660"),
            ("unix:/s:mode=600", "unix:/s:mode=600"),
            ("unix:/s\\:mode=600", "unix:/s\\:mode=600:mode=660"),
            ("tcp:1", "tcp:1"),
        ):
            self.assertEqual(with_mode(endpoint), expected)


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
