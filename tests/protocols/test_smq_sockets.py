"""Simple Message Queue on real sockets: a daemon that is killed again and again, and pullers that vanish.

The oracle of the kills is what the clients know. A push that was acknowledged is pulled at least once. It is pulled
twice only where the daemon died in between: between handing the message to the operating system and having its removal
on disk. The removal stands in the journal before every push that comes later, so once one of those is acknowledged, the
message never comes again.
"""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from streamd.plugin import found_protocols
from streamd.wire.smq import EMPTY, PUSHED
from tests.rigs.daemon import DEADLINE_SECONDS, Daemon
from tests.rigs.protocols.sockets import receive, receive_all, reset, wait_for_connections
from tests.rigs.wire.smq import pull, push

CONFIG = """
data_dir = "{directory}/data"

[store]
# Small, so that the journal rolls and is folded many times.
journal_file_bytes = 1048576
reserve_bytes = 65536
"""

Name = tuple[str, int]
"""Whose message, and which one."""


class Responses:
    """Cuts what comes from a connection into responses."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def receive(self) -> list[bytes]:
        """The next whole ones, at least one. EOFError at the end."""
        while True:
            data = self._connection.recv(1 << 18)
            if not data:
                raise EOFError
            self._rest += data
            found = []
            at = 0
            while len(self._rest) >= at + 9:
                end = at + 9 + int.from_bytes(self._rest[at + 1 : at + 9], "big")
                if len(self._rest) < end:
                    break
                found.append(self._rest[at:end])
                at = end
            self._rest = self._rest[at:]
            if found:
                return found


class Clients:
    """Threads that talk to the daemon until it is gone, and what they count together."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._threads: list[threading.Thread] = []
        self.errors: list[str] = []

    def start(self, daemon: Daemon, talk: Callable[[socket.socket], None]) -> None:
        """Let one talk on a connection of its own."""

        def run(connection: socket.socket) -> None:
            try:
                with connection:
                    talk(connection)
            except (ConnectionError, EOFError):
                pass
            except Exception as error:
                self.errors.append(repr(error))

        thread = threading.Thread(target=run, args=(daemon.connect("smq"),))
        self._threads.append(thread)
        thread.start()

    def add(self, count: int) -> None:
        """So much more has happened."""
        with self._changed:
            self._count += count
            self._changed.notify_all()

    def wait(self, more: int) -> None:
        """Until so much more has happened, or an error."""
        with self._changed:
            wanted = self._count + more
            self._changed.wait_for(lambda: self._count >= wanted or bool(self.errors), 30)

    def join(self) -> None:
        """Until all have noticed that the daemon is gone."""
        for thread in self._threads:
            thread.join(30)
            if thread.is_alive():
                self.errors.append("a client is stuck")
        self._threads.clear()


class Pusher:
    """Pushes numbered messages, up to `window` of them without an answer."""

    def __init__(self, name: str, window: int, clients: Clients) -> None:
        self.name = name
        self.window = window
        self.clients = clients
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.settled = 0.0
        """When the latest push that was acknowledged was sent: removals before that are on disk."""

    def message(self, number: int) -> bytes:
        data = f"{self.name} {number} ".encode() + b"x" * random.Random(number).choice((0, 10, 100, 1000))
        return push(0, len(data), data)

    def talk(self, connection: socket.socket) -> None:
        responses = Responses(connection)
        chance = random.Random(self.sent)
        while True:
            count = chance.randint(1, self.window)
            numbers = range(self.sent, self.sent + count)
            # Counted before it is sent: what the daemon got of it nobody knows.
            self.sent += count
            sent = time.monotonic()
            connection.sendall(b"".join(map(self.message, numbers)))
            answered = 0
            while answered < count:
                found = responses.receive()
                if any(response != PUSHED for response in found):
                    raise AssertionError(f"{self.name} was answered {found}")
                self.acknowledged.update(numbers[answered : answered + len(found)])
                answered += len(found)
                self.settled = max(self.settled, sent)
                self.clients.add(len(found))


class Puller:
    """Pulls, so many at a time, and keeps what it got."""

    def __init__(self, window: int, clients: Clients) -> None:
        self.window = window
        self.clients = clients
        self.got: list[tuple[Name, float]] = []
        """What came since the last restart, in order, and when."""

    def talk(self, connection: socket.socket) -> None:
        responses = Responses(connection)
        while True:
            connection.sendall(pull() * self.window)
            answered = 0
            while answered < self.window:
                found = responses.receive()
                now = time.monotonic()
                answered += len(found)
                messages = [named(response) for response in found if response != EMPTY]
                self.got += [(message, now) for message in messages]
                self.clients.add(len(messages))


def named(response: bytes) -> Name:
    """Whose message a response brings."""
    name, number, _ = response[14:].split(b" ")
    return name.decode(), int(number)


class SmqSocketCase(SynchronousTestCase):
    """A daemon of its own for each test."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).resolve()
        self.directory.mkdir()

    def daemon(self, settings: str = "", *, endpoint: bool = True) -> Daemon:
        """A daemon that speaks SMQ and SESP on free ports."""
        config = self.directory / "streamd.toml"
        config.write_text(CONFIG.format(directory=self.directory) + settings)
        options = ["--config", str(config)]
        for protocol in found_protocols():
            if protocol.name != "smq" or endpoint:
                listens = protocol.name in ("sesp", "smq")
                options += [f"--{protocol.name}", "tcp:0:interface=127.0.0.1" if listens else "off"]
        daemon = Daemon(str(self.directory), *options)
        self.addCleanup(daemon.close)
        return daemon

    def connect(self, daemon: Daemon) -> socket.socket:
        made = daemon.connect("smq")
        self.addCleanup(made.close)
        return made

    def pull_all(self, daemon: Daemon) -> list[bytes]:
        """All responses that bring a message, until there is none."""
        found: list[bytes] = []
        with daemon.connect("smq") as connection:
            responses = Responses(connection)
            while EMPTY not in found:
                connection.sendall(pull() * 100)
                wanted = len(found) + 100
                while len(found) < wanted:
                    found += responses.receive()
        return [response for response in found if response != EMPTY]


class KillTests(SmqSocketCase):
    """SIGKILL under load, again and again."""

    def setUp(self) -> None:
        super().setUp()
        self.clients = Clients()
        self.pushers = [Pusher(name, window, self.clients) for name, window in (("a", 1), ("b", 20), ("c", 200))]
        self.pullers = [Puller(window, self.clients) for window in (1, 30, 50)]
        self.pulled: set[Name] = set()
        self.settled: set[Name] = set()
        """What was pulled, and its removal is on disk."""
        self.again = 0

    def start_all(self, daemon: Daemon) -> None:
        """Everybody pushes and pulls."""
        for pusher in self.pushers:
            self.clients.start(daemon, pusher.talk)
        for puller in self.pullers:
            self.clients.start(daemon, puller.talk)

    def settle(self) -> None:
        """Look at one round: what came in it, and what may never come again."""
        self.assertEqual(self.clients.errors, [])
        came = [message for puller in self.pullers for message, _ in puller.got]
        self.assertEqual(len(came), len(set(came)), "two pullers got the same message")
        self.assertEqual(set(came) & self.settled, set(), "a message came again after its removal was on disk")
        for puller in self.pullers:
            for pusher in self.pushers:
                numbers = [number for (name, number), _ in puller.got if name == pusher.name]
                self.assertEqual(numbers, sorted(numbers), "out of order")
        self.again += len(set(came) & self.pulled)
        self.pulled.update(came)
        on_disk = max(pusher.settled for pusher in self.pushers)
        for puller in self.pullers:
            self.settled.update(message for message, when in puller.got if when < on_disk)
            puller.got.clear()

    def test_kill(self) -> None:
        """Eight rounds: nothing acknowledged is lost, and nothing comes twice without need."""
        chance = random.Random(4)
        daemon = self.daemon().start()
        for _ in range(8):
            self.start_all(daemon)
            self.clients.wait(chance.choice((10, 300, 3000, 6000)))
            self.assertEqual(daemon.kill(), -signal.SIGKILL)
            self.clients.join()
            self.settle()
            daemon.start()
        left = [named(response) for response in self.pull_all(daemon)]
        self.assertEqual(len(left), len(set(left)))
        self.assertEqual(set(left) & self.settled, set())
        for pusher in self.pushers:
            found = {number for name, number in self.pulled | set(left) if name == pusher.name}
            self.assertEqual(pusher.acknowledged - found, set())
            self.assertLessEqual(found, set(range(pusher.sent)))
            numbers = [number for name, number in left if name == pusher.name]
            self.assertEqual(numbers, sorted(numbers))
        self.assertGreater(len(self.pulled), 5000)
        # Few of them: what came with the last commit of a round.
        self.assertLess(self.again, len(self.pulled) / 10)
        # All is pulled, and the next daemon knows it.
        self.assertEqual(daemon.terminate(), 0, daemon.output)
        daemon.start()
        self.assertEqual(self.pull_all(daemon), [])

    def test_terminate(self) -> None:
        """With SIGTERM: what was pulled is pulled for good, what was acknowledged is there, exactly once."""
        daemon = self.daemon().start()
        for _ in range(3):
            self.start_all(daemon)
            self.clients.wait(3000)
            self.assertEqual(daemon.terminate(), 0, daemon.output)
            self.clients.join()
            self.settle()
            self.settled |= self.pulled
            daemon.start()
        left = [named(response) for response in self.pull_all(daemon)]
        self.assertEqual(set(left) & self.pulled, set())
        for pusher in self.pushers:
            found = {number for name, number in self.pulled | set(left) if name == pusher.name}
            self.assertEqual(pusher.acknowledged - found, set())


class VanishTests(SmqSocketCase):
    """Pullers that ask for much and are gone before they have taken it."""

    size = 10_000
    count = 3000

    def message(self, number: int) -> bytes:
        data = b"%d" % number
        return push(0, self.size, data + b" " * (self.size - len(data)))

    def fill(self, daemon: Daemon) -> None:
        pusher = self.connect(daemon)
        for begin in range(0, self.count, 100):
            pusher.sendall(b"".join(map(self.message, range(begin, begin + 100))))
            self.assertEqual(receive(pusher, 900), PUSHED * 100)
        pusher.close()

    def small_peer(self, daemon: Daemon) -> socket.socket:
        """A connection with a small buffer: not everything is with the operating system at once."""
        made = socket.socket()
        self.addCleanup(made.close)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        made.settimeout(DEADLINE_SECONDS)
        made.connect(("127.0.0.1", daemon.port("smq")))
        return made

    def numbers(self, responses: list[bytes]) -> list[int]:
        found = [int(response[14:]) for response in responses]
        for number, response in zip(found, responses, strict=True):
            self.assertEqual(response, self.message(number))
        return found

    def test_reset(self) -> None:
        """What a puller had in whole is its own; what never left our buffers comes to the next one, in order.

        Between them may be what the operating systems held: that is lost with the connection.
        """
        daemon = self.daemon().start()
        self.fill(daemon)
        begin = 0
        for taken_bytes in (0, 1, 5_000, 123_456, 2_000_000):
            peer = self.small_peer(daemon)
            peer.sendall(pull() * self.count)
            taken = receive(peer, taken_bytes)
            whole = taken_bytes // (self.size + 14)
            expected = b"".join(map(self.message, range(begin, begin + whole + 1)))
            self.assertEqual(taken, expected[:taken_bytes])
            reset(peer)
            wait_for_connections(daemon, 0)
            with daemon.connect("smq") as other:
                other.sendall(pull())
                (number,) = self.numbers([receive(other, self.size + 14)])
            self.assertGreaterEqual(number, begin + whole)
            self.assertLess(number, self.count)
            begin = number + 1
            wait_for_connections(daemon, 0)
        self.assertEqual(self.numbers(self.pull_all(daemon)), list(range(begin, self.count)))
        self.assertEqual(daemon.terminate(), 0, daemon.output)
        self.assertNotIn("Traceback", daemon.output)

    def test_half_closed(self) -> None:
        """One that shuts its side and takes its time gets everything, and nobody else gets any of it."""
        daemon = self.daemon().start()
        self.fill(daemon)
        peer = self.small_peer(daemon)
        peer.sendall(pull() * self.count)
        peer.shutdown(socket.SHUT_WR)
        self.assertEqual(receive(peer, self.size + 14), self.message(0))
        with daemon.connect("smq") as other:
            # The daemon has done for the first one what it can, and waits.
            other.sendall(pull())
            (kept,) = self.numbers([receive(other, self.size + 14)])
        rest = receive_all(peer)
        expected = [number for number in range(1, self.count) if number != kept]
        self.assertTrue(rest == b"".join(map(self.message, expected)) + EMPTY)
        self.assertEqual(self.pull_all(daemon), [])


class QueuesTests(SmqSocketCase):
    """Several queues on several endpoints of one daemon."""

    def test_several(self) -> None:
        """Each endpoint has the queue that its table says, also two that share one; after a restart too."""
        listens = 'endpoint = "tcp:0:interface=127.0.0.1"'
        tables = [f'[[smq]]\n{listens}\nqueue = "{queue}"\n' for queue in ("a", "b", "b")]
        daemon = self.daemon("".join(tables), endpoint=False).start()

        def ask(asked: list[bytes], expected: list[bytes]) -> None:
            for address, request, response in zip(daemon.addresses("smq"), asked, expected, strict=True):
                host, _, port = address.rpartition(":")
                with contextlib.closing(socket.create_connection((host, int(port)), 30)) as connection:
                    connection.sendall(request)
                    self.assertEqual(receive(connection, len(response)), response)

        one, two, three, four = (push(0, 1, b"%d" % number) for number in range(1, 5))
        ask([one, two, three + four], [PUSHED, PUSHED, PUSHED * 2])
        self.assertEqual(daemon.terminate(), 0, daemon.output)
        daemon.start()
        ask([pull() * 2, pull(), pull()], [one + EMPTY, two, three])
        ask([pull(), pull(), pull()], [EMPTY, four, EMPTY])
