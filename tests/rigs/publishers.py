"""Publishers that put a real daemon under load, and know what it promised: an oracle that is not part of it.

They know which messages they sent, and which were acknowledged. After each restart everything acknowledged is there,
once, in order; of what was sent and not acknowledged some may be there, whole and in order too; nothing else is.
"""

from __future__ import annotations

import json
import random
import socket
import threading
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.rigs.daemon import Daemon

CONFIG = """
data_dir = "{directory}/data"

[store]
# Small, so that the journal rolls many times.
journal_file_bytes = 1048576
reserve_bytes = 65536

[sesp]
endpoint = "tcp:0:interface=127.0.0.1"
"""


class Acknowledgements:
    """How many there were, from all publishers together. A test waits here for the moment to strike."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._publishing = 0

    def add(self, count: int) -> None:
        with self._changed:
            self._count += count
            self._changed.notify_all()

    def begin(self) -> None:
        with self._changed:
            self._publishing += 1

    def end(self) -> None:
        with self._changed:
            self._publishing -= 1
            self._changed.notify_all()

    def wait(self, more: int) -> None:
        """Until there are so many more, or nobody is left who would make them."""
        with self._changed:
            wanted = self._count + more
            self._changed.wait_for(lambda: self._count >= wanted or not self._publishing, 60)


class Publisher:
    """Sends numbered messages to a topic, up to `window` of them without an answer, until the daemon is gone."""

    def __init__(self, name: str, topic: str, window: int, seed: int, acknowledged: Acknowledgements) -> None:
        self.name = name
        self.topic = topic
        self.window = window
        self.sent = 0
        self.acknowledged = 0
        self.stored = 0
        """How many numbers are settled: below this, it is known of each whether it is in the topic."""
        self.errors: list[str] = []
        self._random = random.Random(seed)
        self._counter = acknowledged
        self._thread: threading.Thread | None = None

    def line(self, number: int) -> bytes:
        """The message with this number: its size is no other's, so half a one is not mistaken for a whole one."""
        size = random.Random(f"{self.name} {number}").choice((0, 10, 100, 100, 100, 1000, 30_000))
        return f"{self.name} {number} {'x' * (size + number % 7)}.".encode()

    def start(self, daemon: Daemon) -> None:
        """Publish on a connection of its own, in a thread of its own."""
        self._counter.begin()
        self._thread = threading.Thread(target=self._run, args=(daemon.connect(),))
        self._thread.start()

    def join(self) -> None:
        assert self._thread is not None
        self._thread.join(60)
        if self._thread.is_alive():
            self.errors.append("it is stuck")

    def _run(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._publish(connection)
        except (ConnectionError, EOFError):
            pass
        except Exception as error:
            self.errors.append(repr(error))
        finally:
            self._counter.end()

    def _publish(self, connection: socket.socket) -> None:
        connection.sendall(b"@" + self.topic.encode() + b"\n")
        replies = self._receive(connection)
        while replies != b"+\n":
            replies += self._receive(connection)
        half = b""
        while True:
            room = self.window - (self.sent - self.acknowledged)
            if room > 0:
                count = self._random.randint(1, room)
                lines = [b">" + self.line(number) + b"\n" for number in range(self.sent, self.sent + count)]
                # Counted before it is sent: what the daemon got of it nobody knows.
                self.sent += count
                connection.sendall(b"".join(lines))
            replies = half + self._receive(connection)
            whole, half = replies[: len(replies) & ~1], replies[len(replies) & ~1 :]
            if whole.replace(b"+\n", b"") or half not in (b"", b"+"):
                raise AssertionError(f"{self.name} was answered {replies!r}")
            self.acknowledged += len(whole) // 2
            self._counter.add(len(whole) // 2)

    def _receive(self, connection: socket.socket) -> bytes:
        data = connection.recv(1 << 16)
        if not data:
            raise EOFError
        return data

    def settle(self, found: list[int]) -> str | None:
        """Compare what was found of its messages since the last time with what it knows; None where all is well."""
        begin = self.stored
        if found != list(range(begin, begin + len(found))):
            return f"{self.name}: not in order from {begin} on: {found[:5]} … {found[-5:]}"
        if not self.acknowledged <= begin + len(found) <= self.sent:
            return f"{self.name}: {begin + len(found)} found, {self.acknowledged} acknowledged, {self.sent} sent"
        # Numbers that were sent and lost are used again: the next message is the one behind the last one found.
        self.stored = self.sent = self.acknowledged = begin + len(found)
        return None


class Creator(Publisher):
    """Makes topics one at a time; the number of a topic is in its name."""

    def _publish(self, connection: socket.socket) -> None:
        while True:
            self.sent += 1
            connection.sendall(b"#made %d\n" % (self.sent - 1))
            reply = self._receive(connection)
            if reply != b"+\n":
                raise AssertionError(f"{self.name} was answered {reply!r}")
            self.acknowledged += 1
            self._counter.add(1)


class LoadCase(SynchronousTestCase):
    """Six publishers and somebody who creates topics, on one daemon."""

    config = CONFIG
    others: frozenset[str] = frozenset()
    """Topics that somebody else checks."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).resolve()
        self.directory.mkdir()
        config = self.directory / "streamd.toml"
        config.write_text(self.config.format(directory=self.directory))
        self.daemon = Daemon(str(self.directory), "--config", str(config))
        self.addCleanup(self.daemon.close)
        self.acknowledged = Acknowledgements()
        self.publishers = [
            Publisher(name, topic, window, seed, self.acknowledged)
            for seed, (name, topic, window) in enumerate(
                [
                    ("one at a time", "a", 1),
                    ("two at a time", "a", 2),
                    ("pipelined", "a", 500),
                    ("alone", "b", 1),
                    ("pipelined alone", "c", 200),
                    ("beside", "d", 3),
                ]
            )
        ]
        self.creator = Creator("creator", "", 1, 0, self.acknowledged)
        self.topics = sorted({each.topic for each in self.publishers})
        self.read: dict[str, list[bytes]] = {topic: [] for topic in self.topics}

    def create_topics(self) -> None:
        with self.daemon.connect() as connection, connection.makefile("rwb") as stream:
            for topic in self.topics:
                stream.write(f"#{topic}\n".encode())
                stream.flush()
                self.assertEqual(stream.readline(), b"+\n")

    def load(self, more: int) -> None:
        """Let everybody publish until so many more messages are acknowledged."""
        for each in (*self.publishers, self.creator):
            each.start(self.daemon)
        self.acknowledged.wait(more)

    def join(self) -> None:
        for each in (*self.publishers, self.creator):
            each.join()
            self.assertEqual(each.errors, [], self.daemon.output)

    def messages(self, topic: str, begin: int) -> list[bytes]:
        """All messages of a topic from this one on."""
        found: list[bytes] = []
        with self.daemon.connect() as connection, connection.makefile("rwb") as stream:
            stream.write(f"@{topic}\n?{topic}\n${begin}\n".encode())
            stream.flush()
            self.assertEqual(stream.readline(), b"+\n")
            end = json.loads(stream.readline()[1:])["next_offset"]
            self.assertEqual(stream.readline(), b"+\n")
            for first in range(begin, end, 1000):
                count = min(1000, end - first)
                stream.write(b"<\n" * count)
                stream.flush()
                found += [stream.readline() for _ in range(count)]
            stream.write(b"<\n")
            stream.flush()
            self.assertEqual(stream.readline(), b"-None\n")
        for line in found:
            self.assertEqual(line[:1], b"+")
        return [line[1:-1] for line in found]

    def check_new(self) -> None:
        """What was added to each topic since the last time is what the publishers say."""
        by_name = {each.name.encode(): each for each in self.publishers}
        for topic in self.topics:
            new = self.messages(topic, len(self.read[topic]))
            numbers: dict[str, list[int]] = {each.name: [] for each in self.publishers}
            for message in new:
                name, number, _ = message.rsplit(b" ", 2)
                publisher = by_name[name]
                self.assertEqual(message, publisher.line(int(number)))
                self.assertEqual(publisher.topic, topic)
                numbers[publisher.name].append(int(number))
            for publisher in self.publishers:
                if publisher.topic == topic:
                    self.assertIsNone(publisher.settle(numbers[publisher.name]), self.daemon.output)
            self.read[topic] += new
        with self.daemon.connect() as connection, connection.makefile("rwb") as stream:
            stream.write(b"?\n")
            stream.flush()
            names = json.loads(stream.readline()[1:])
        made = [int(name.split()[1]) for name in names if name.startswith("made ")]
        self.assertIsNone(self.creator.settle(made[self.creator.stored :]))
        self.assertEqual(set(names) - {f"made {number}" for number in made} - self.others, set(self.topics))

    def check_all(self) -> None:
        """Everything ever found is still there, the same."""
        for topic in self.topics:
            self.assertEqual(self.messages(topic, 0), self.read[topic])


def compactors(pid: int) -> list[int]:
    """The compactors among the children of a process."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and b"streamd.store.packs.compactor" in (each / "cmdline").read_bytes():
                found.append(int(each.name))
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has just ended
    return found
