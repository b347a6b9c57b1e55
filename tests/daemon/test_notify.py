"""What a service manager is told: by a Notifier on a clock of its own, and by a real daemon over its life."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock
from twisted.internet.testing import EventLoggingObserver
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from streamd.daemon.notify import Notifier
from tests.rigs.daemon import DEADLINE_SECONDS, DaemonFailed
from tests.rigs.operated import DaemonCase
from tests.rigs.publishers import compactors

# Larger than any queue of a datagram socket is long.
MANY = 10_000

# A protocol of somebody else's that never comes back from a read.
STUCK = """\
import time
from twisted.internet.protocol import Factory, Protocol
from streamd.plugin import ProtocolPlugin

class Stuck(Protocol):
    def dataReceived(self, data):
        self.transport.socket.send(b"stuck")
        while True:
            time.sleep(3600)

def configure(table):
    return None

def factory(core, settings):
    return Factory.forProtocol(Stuck)

stuck = ProtocolPlugin("stuck", __name__, "tcp:0:interface=127.0.0.1", "for this test")
"""


class ServiceManager:
    """The socket of a service manager, and what was said to it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(DEADLINE_SECONDS)
        self.socket.bind(address.replace("@", "\0", 1))

    def hear(self) -> dict[str, str]:
        """The next datagram, waited for."""
        return dict(line.split("=", 1) for line in self.socket.recv(65536).decode().split("\n"))

    def hear_until(self, enough: Callable[[dict[str, str]], bool]) -> list[dict[str, str]]:
        """All datagrams up to the first of which this is true."""
        heard = [self.hear()]
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not enough(heard[-1]):
            if time.monotonic() > deadline:
                raise AssertionError(f"it never came: {heard[-20:]}")
            heard.append(self.hear())
        return heard

    def pending(self) -> list[dict[str, str]]:
        """What has come and was not heard yet."""
        found = []
        self.socket.setblocking(False)
        try:
            while True:
                found.append(self.hear())
        except BlockingIOError:
            return found
        finally:
            self.socket.settimeout(DEADLINE_SECONDS)


class ManagerCase(SynchronousTestCase):
    def manager(self, address: str | None = None) -> ServiceManager:
        """A service manager; the abstract namespace has room for it where a path of trial's is too long."""
        made = ServiceManager(address or f"@streamd-test-{secrets.token_hex(8)}")
        self.addCleanup(made.socket.close)
        return made


class NotifierTests(ManagerCase):
    def notifier(self, address: str | None, watchdog_seconds: float | None = None) -> Notifier:
        self.clock = Clock()
        made = Notifier(address, watchdog_seconds, self.clock)
        self.addCleanup(made.close)
        return made

    def test_path(self) -> None:
        """The socket may have a path, as systemd's own has."""
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        manager = self.manager(f"{directory}/notify")
        self.notifier(manager.address).status("opening it")
        self.assertEqual(manager.pending(), [{"STATUS": "opening it"}])

    def test_lines(self) -> None:
        """A reason of several lines is one status, and says nothing else."""
        manager = self.manager()
        self.notifier(manager.address).status("damaged\nREADY=1\n")
        self.assertEqual(manager.pending(), [{"STATUS": "damaged READY=1"}])

    def test_life(self) -> None:
        """Each phase is told once, and the status when it has changed."""
        manager = self.manager()
        notifier = self.notifier(manager.address)
        status = "one"
        notifier.ready(lambda: status)
        self.assertEqual(manager.pending(), [{"READY": "1"}, {"STATUS": "one"}])
        self.clock.advance(notifier.interval_seconds)
        self.assertEqual(manager.pending(), [])
        status = "two"
        self.clock.advance(notifier.interval_seconds)
        self.assertEqual(manager.pending(), [{"STATUS": "two"}])
        notifier.stopping()
        self.assertEqual(manager.pending(), [{"STOPPING": "1", "STATUS": "stopping"}])
        self.clock.advance(notifier.interval_seconds)
        self.assertEqual(manager.pending(), [])
        notifier.close()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_reload(self) -> None:
        """A reload begins with the time, by the clock that the manager has too, and ends with being ready."""
        manager = self.manager()
        notifier = self.notifier(manager.address)
        notifier.ready(lambda: "serving")
        manager.pending()
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        with notifier.reloading():
            (begun,) = manager.pending()
        (ended,) = manager.pending()
        self.assertEqual(set(begun), {"RELOADING", "MONOTONIC_USEC"})
        self.assertLessEqual(before, int(begun["MONOTONIC_USEC"]))
        self.assertLessEqual(int(begun["MONOTONIC_USEC"]), time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)
        self.assertEqual(ended, {"READY": "1"})

    def test_watchdog(self) -> None:
        """It is fed twice in its time while the clock goes, until the end, and never by anything but the clock."""
        manager = self.manager()
        notifier = self.notifier(manager.address, watchdog_seconds=3.0)
        notifier.ready(lambda: "serving")
        self.assertEqual(manager.pending()[-1], {"WATCHDOG": "1", "STATUS": "serving"})
        for _ in range(4):
            self.clock.advance(1.5)
            self.assertEqual(manager.pending(), [{"WATCHDOG": "1"}])
        self.assertEqual(manager.pending(), [])
        notifier.stopping()
        self.clock.advance(1.5)
        self.assertEqual(manager.pending()[-1], {"WATCHDOG": "1"})
        notifier.close()
        self.clock.advance(1.5)
        self.assertEqual(manager.pending(), [])

    def test_status_fails(self) -> None:
        """A status that can't be told ends nothing: the watchdog is fed each time, and the next status is told."""
        manager = self.manager()
        notifier = self.notifier(manager.address, watchdog_seconds=2.0)
        fails = False

        def describe() -> str:
            if fails:
                raise ZeroDivisionError
            return f"serving at {self.clock.seconds()}"

        notifier.ready(describe)
        manager.pending()
        fails = True
        for _ in range(3):
            self.clock.advance(1.0)
            self.assertEqual(manager.pending(), [{"WATCHDOG": "1"}])
        fails = False
        self.clock.advance(1.0)
        self.assertEqual(manager.pending(), [{"WATCHDOG": "1", "STATUS": "serving at 4.0"}])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_busy(self) -> None:
        """A manager that does not listen holds nobody up; what it missed it is told later, the latest of each."""
        manager = self.manager()
        notifier = self.notifier(manager.address)
        for number in range(MANY):
            notifier.status(str(number))
        self.assertLess(len(manager.pending()), MANY)
        notifier.ready(lambda: "serving")
        self.assertEqual(manager.pending()[0], {"STATUS": str(MANY - 1), "READY": "1"})

    def test_busy_through_a_phase(self) -> None:
        """Of the phases it missed it is told the last one alone."""
        manager = self.manager()
        notifier = self.notifier(manager.address)
        notifier.ready(lambda: "serving")
        for number in range(MANY):
            notifier.status(str(number))
        with notifier.reloading():
            pass
        notifier.stopping()
        manager.pending()
        self.clock.advance(notifier.interval_seconds)
        self.assertEqual(manager.pending(), [{"STATUS": "stopping", "STOPPING": "1"}])

    def test_gone(self) -> None:
        """A manager that is gone is worth one line in the log; when it is back, it is told."""
        events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        manager = self.manager()
        notifier = self.notifier(manager.address, watchdog_seconds=2.0)
        manager.socket.close()
        notifier.ready(lambda: "serving")
        self.clock.pump([1.0] * 5)
        (said,) = (event for event in events if "service manager" in event.get("log_format", ""))
        self.assertEqual((said["address"], said["reason"]), (manager.address, "Connection refused"))
        back = self.manager(manager.address)
        self.clock.advance(1.0)
        self.assertEqual(back.pending(), [{"READY": "1", "WATCHDOG": "1", "STATUS": "serving"}])

    def test_nobody(self) -> None:
        """Without a manager nothing happens at all."""
        notifier = self.notifier(None, watchdog_seconds=1.0)
        notifier.status("opening")
        notifier.ready(self.fail)
        self.clock.advance(10)
        notifier.stopping()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_environment(self) -> None:
        """What is asked for is taken out of the environment; a watchdog of another process is not ours."""
        pid = str(os.getpid())
        for usec, whose, interval in (
            ("4000000", pid, 2.0),
            ("4000000", None, 2.0),
            ("60000000", pid, 5.0),
            ("4000000", "1", 5.0),
            ("0", pid, 5.0),
            ("soon", pid, 5.0),
            (None, None, 5.0),
        ):
            asked = {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": usec, "WATCHDOG_PID": whose, "HOME": "/"}
            environment = {key: value for key, value in asked.items() if value is not None}
            made = Notifier.from_environment(environment, Clock())
            self.assertEqual(made.interval_seconds, interval, asked)
            self.assertEqual(environment, {"HOME": "/"})


class DaemonTests(ManagerCase, DaemonCase):
    """A real daemon, and the test as its service manager."""

    def environment(self, manager: ServiceManager, watchdog_seconds: float) -> dict[str, str]:
        return {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": str(int(watchdog_seconds * 1e6))}

    def test_life(self) -> None:
        """It tells what it opens, that it is ready when it is, how it is while it serves, and that it stops."""
        manager = self.manager()
        daemon = self.daemon(environment=self.environment(manager, 0.5)).start()
        self.assertEqual(manager.hear(), {"STATUS": f"opening {daemon.data_dir}"})
        self.assertEqual(manager.hear(), {"READY": "1"})
        self.assertEqual(manager.hear(), {"WATCHDOG": "1", "STATUS": "segments 0, connections 0, commits 0"})
        with daemon.connect() as connection, connection.makefile("rwb") as stream:
            stream.write(b"#one\n#two\n")
            stream.flush()
            self.assertEqual([stream.readline() for _ in range(2)], [b"+\n"] * 2)
            heard = manager.hear_until(lambda each: "segments 2, connections 1" in each.get("STATUS", ""))
        self.assertEqual({each.get("WATCHDOG") for each in heard}, {"1"})
        self.assertEqual(daemon.terminate(), 0, daemon.output)
        stopping = manager.hear_until(lambda each: "STOPPING" in each)[-1]
        self.assertEqual(stopping, {"STOPPING": "1", "STATUS": "stopping"})

    def test_reload(self) -> None:
        """A SIGHUP is told as a reload that ends, also where the file has a mistake, and the daemon serves on."""
        manager = self.manager()
        path = self.write("streamd.toml", 'data_dir = "data"\n')
        daemon = self.daemon("--config", path, environment=self.environment(manager, 60)).start()
        for text in ('data_dir = "data"\n[limits]\nconnections_max = 9\n', "nonsense"):
            self.write("streamd.toml", text)
            os.kill(daemon.pid, signal.SIGHUP)
            begun = manager.hear_until(lambda each: "RELOADING" in each)[-1]
            self.assertEqual(set(begun), {"RELOADING", "MONOTONIC_USEC"})
            self.assertEqual(manager.hear(), {"READY": "1"})
        self.assert_answers(daemon.connect())
        self.assertEqual(daemon.terminate(), 0, daemon.output)

    def test_compactor(self) -> None:
        """The child that it starts knows of no service manager."""
        manager = self.manager()
        daemon = self.daemon(environment=self.environment(manager, 0.5)).start()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (found := compactors(daemon.pid)):  # between fork and exec it still has the daemon's environment
            self.assertLess(time.monotonic(), deadline, daemon.output)
        inherited = Path(f"/proc/{found[0]}/environ").read_bytes()
        self.assertIn(b"PYTHONPATH=", inherited)
        self.assertNotIn(b"NOTIFY_SOCKET", inherited)
        self.assertNotIn(b"WATCHDOG", inherited)

    def test_failed(self) -> None:
        """Where it can't start, the status says why, and it is never ready."""
        manager = self.manager()
        daemon = self.daemon(environment=self.environment(manager, 60))
        daemon.data_dir.mkdir()
        (daemon.data_dir / "letter.txt").write_text("dear")
        self.refused(daemon)
        first, last = manager.pending()
        self.assertEqual(set(first), {"STATUS"})
        self.assertEqual(daemon.errors, [f"streamd: {last['STATUS']}"])

    def test_stuck(self) -> None:
        """When the reactor is stuck no sign of life comes, and the manager's signal shows where that was."""
        manager = self.manager()
        plugins = self.directory / "path" / "twisted" / "plugins"
        plugins.mkdir(parents=True)
        (plugins / "stuck_plugin.py").write_text(STUCK)
        environment = {
            **self.environment(manager, 0.2),
            "PYTHONPATH": str(self.directory / "path"),
            "PYTHONFAULTHANDLER": "1",
        }
        daemon = self.daemon(environment=environment).start()
        manager.hear_until(lambda each: "WATCHDOG" in each)
        with socket.create_connection(("127.0.0.1", daemon.port("stuck")), DEADLINE_SECONDS) as connection:
            connection.sendall(b"x")
            self.assertEqual(connection.recv(5), b"stuck")
            manager.socket.settimeout(2.0)
            self.assertRaises(TimeoutError, manager.hear_until, lambda each: False)
            self.assertEqual(daemon.terminate(signal.SIGABRT), -signal.SIGABRT)
        self.assertIn("in dataReceived", "\n".join(daemon.errors))
        self.assertRaises(DaemonFailed, daemon.wait_for_line, "streamd stopped")
