"""Endpoint strings: what they say, what is added to them, and what the kernel then has."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import ExitStack

from twisted.trial.unittest import SynchronousTestCase

from streamd.endpoints import BACKLOG, completed, parse
from tests.rigs.access.authority import Authority
from tests.rigs.access.daemon_case import DaemonCase
from tests.rigs.daemon import DEADLINE_SECONDS

MANY = 400
"""More than any default but ours, less than what the kernel allows anywhere."""


class ParseTests(SynchronousTestCase):
    def test_arguments(self) -> None:
        """Arguments are known by name, whether they are given one or stand in their place."""
        for endpoint, kind, arguments in (
            ("tcp:80", "tcp", {"port": "80"}),
            ("tcp:port=80:interface=127.0.0.1", "tcp", {"port": "80", "interface": "127.0.0.1"}),
            ("tcp:80:127.0.0.1:9", "tcp", {"port": "80", "interface": "127.0.0.1", "backlog": "9"}),
            ("tcp6:80:9", "tcp6", {"port": "80", "backlog": "9"}),
            (r"tcp:80:interface=\:\:1", "tcp", {"port": "80", "interface": "::1"}),
            (r"unix:/a\:b\\:600", "unix", {"address": "/a:b\\", "mode": "600"}),
            (r"unix:/a\=b", "unix", {"address": "/a=b"}),
            ("unix:/s:lockfile=0", "unix", {"address": "/s", "lockfile": "0"}),
            ("haproxy:tcp:80", "tcp", {"port": "80"}),
            ("quic:1:privateKey=a=b", "quic", {"port": "1", "privateKey": "a=b"}),
            ("other:what:x=y", "other", {"x": "y"}),
            ("systemd:domain=INET:name=sesp", "systemd", {"domain": "INET", "name": "sesp"}),
        ):
            stated = parse(endpoint)
            self.assertEqual((stated.kind, stated.arguments), (kind, arguments), endpoint)
            self.assertEqual(stated.behind_proxy, endpoint.startswith("haproxy:"))

    def test_completed(self) -> None:
        """What says nothing of its mode or its queue gets both; what says something keeps it."""
        queue = f":backlog={BACKLOG}"
        for endpoint, added in (
            ("unix:/s", f":mode=660{queue}"),
            ("unix:address=/s:lockfile=0", f":mode=660{queue}"),
            ("unix:/s:mode=600", queue),
            ("unix:/s:600", queue),
            ("unix:/s:600:7", ""),
            (r"unix:/s\:mode=600", f":mode=660{queue}"),
            ("haproxy:unix:/s", f":mode=660{queue}"),
            ("tcp:1", queue),
            ("tcp:1:127.0.0.1", queue),
            ("tcp:1:127.0.0.1:7", ""),
            ("tcp:1:backlog=7", ""),
            ("tcp6:1", queue),
            ("tcp6:1:7", ""),
            ("haproxy:tcp:1", queue),
            ("ssl:1:privateKey=k", queue),
            ("tls:d:port=1", queue),
            ("tlsfile:1:privateKey=k", ""),
            ("quic:1", ""),
            ("systemd:domain=INET:index=0", ""),
            ("other:1", ""),
        ):
            self.assertEqual(completed(endpoint), endpoint + added)


class QueueTests(DaemonCase):
    """A daemon that is stopped accepts nobody: who gets through is who the kernel lets wait."""

    def waiting(self, address: str, many: int) -> int:
        """How many of so many connections are made; without a deadline, as many as there is room for at once."""
        made = 0
        with ExitStack() as stack:
            for _ in range(many):
                family = socket.AF_UNIX if address.startswith("/") else socket.AF_INET
                connection = stack.enter_context(socket.socket(family))
                # A full queue of a unix socket says so; TCP would try again and again.
                connection.settimeout(0 if family == socket.AF_UNIX else DEADLINE_SECONDS)
                try:
                    connection.connect(address if family == socket.AF_UNIX else ("127.0.0.1", port_of(address)))
                except BlockingIOError:
                    break
                made += 1
        return made

    def test_long(self) -> None:
        """Hundreds of connections at once wait in front of every kind of listener that says nothing of its queue."""
        key = Authority(self.directory).issue("server")
        kinds = ["tcp:0:interface=127.0.0.1", f"unix:{self.directory}/s", "tcp6:0", "haproxy:tcp:0:interface=127.0.0.1"]
        kinds += [f"{kind}:0:interface=127.0.0.1:privateKey={key}" for kind in ("ssl", "tlsfile")]
        endpoints = ", ".join(f'"{each}"' for each in kinds)
        daemon = self.daemon(f"insecure = true\n[sesp]\nendpoint = [{endpoints}]\n").start()
        addresses = [*daemon.addresses("sesp"), *daemon.addresses("http"), *daemon.addresses("smq")]
        self.assertEqual(len(addresses), len(kinds) + 2)
        os.kill(daemon.pid, signal.SIGSTOP)
        for address in addresses:
            self.assertEqual(self.waiting(address, MANY), MANY, address)

    def test_as_stated(self) -> None:
        """A queue that is stated is as long as that."""
        daemon = self.daemon(f'[sesp]\nendpoint = "unix:{self.directory}/s:backlog=7"\n').start()
        os.kill(daemon.pid, signal.SIGSTOP)
        (address,) = daemon.addresses("sesp")
        self.assertLess(self.waiting(address, MANY), 20)


def port_of(address: str) -> int:
    """The port in an address of the log."""
    return int(address.rpartition(":")[2])
