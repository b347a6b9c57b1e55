"""Messages outlive the daemon, crashes and full disks; several queues in one daemon."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock
from twisted.internet.testing import EventLoggingObserver
from twisted.logger import globalLogPublisher

from streamd.config import Overrides, load
from streamd.interfaces import ConfigError
from streamd.plugin import found_protocols
from streamd.wire.smq import EMPTY, PUSHED, REFUSED
from tests.rigs.protocols.smq_case import LARGE, SmqCase, frames, text, texts
from tests.rigs.wire.smq import NUMBERS, STR, pull, push


class DurabilityTests(SmqCase):
    """Messages outlive the daemon."""

    def test_restart(self) -> None:
        """What was pushed and not pulled is there after a restart, with its type; what was pulled is not."""
        messages = [push(kind, 1, bytes(range(size))) for kind, size in NUMBERS] + [push(STR, 2, b"a\0b\0")]
        self.asks(b"".join(messages), PUSHED * len(messages))
        for message in messages:
            self.restart()
            self.asks(pull(), message)
        self.restart()
        self.asks(pull(), EMPTY)

    def test_crash(self) -> None:
        """A removal that was not on disk has not been: the message comes again, and none is lost."""
        self.fill(10)
        self.asks(pull() * 3, texts(range(3)))
        self.rig.held = True
        self.asks(pull() * 4, texts(range(3, 7)))
        self.crash()
        self.assertEqual(self.pull_all(), list(range(3, 10)))

    def test_crash_with_holes(self) -> None:
        """Also where what was acknowledged lies behind what was not."""
        self.fill(300, LARGE)
        slow = self.rig.connect()
        slow.wire.slow = True
        slow.send(pull() * 100)
        kept = len(frames(slow.wire.value()))
        quick = self.rig.connect()
        self.assertTrue(quick.send(pull() * 100).take_all() == texts(range(kept, kept + 100), LARGE))
        self.crash()
        self.assertEqual(self.pull_all(), [*range(kept), *range(kept + 100, 300)])

    def test_later_write(self) -> None:
        """Once any later push is acknowledged, the removals before it are on disk too."""
        self.fill(5)
        self.rig.held = True
        self.asks(pull() * 3, texts(range(3)))
        self.peer.send(text(5))
        self.rig.release()
        self.assertEqual(self.peer.take(), PUSHED)
        self.crash()
        self.assertEqual(self.pull_all(), [3, 4, 5])

    def test_any_crash(self) -> None:
        """Pushes, pulls and crashes at random: nothing acknowledged is lost; only what was pulled last may recur."""
        chance = random.Random(3)
        pushed = 0
        pulled: set[int] = set()
        for _ in range(40):
            settled = set(pulled)
            for _ in range(chance.randint(1, 6)):
                self.rig.held = False
                self.rig.run()
                settled = set(pulled)
                count = chance.randint(1, 30)
                self.asks(texts(range(pushed, pushed + count)), PUSHED * count)
                pushed += count
                self.rig.held = chance.random() < 0.5
                found = frames(self.peer.ask(pull() * chance.randint(1, 30)))
                numbers = {int(frame[14:]) for frame in found if frame != EMPTY}
                self.assertEqual(numbers & settled, set())
                pulled |= numbers
            if not self.rig.held:
                settled = set(pulled)
            self.crash()
            pulled = settled
        left = self.pull_all()
        self.assertEqual(sorted(left), left)
        self.assertEqual(set(left) | pulled, set(range(pushed)))
        self.assertEqual(set(left) & pulled, set())


class TroubleTests(SmqCase):
    """What the store can't do is told, and the rest goes on."""

    def test_full(self) -> None:
        """While the disk is full pushes are answered with status 1, pulls go on, and with room everything does."""
        self.fill(10)
        self.rig.disk.full = True
        self.asks(text(10) + text(11), REFUSED * 2)
        self.asks(text(12) + pull() * 2 + push(1, 1, b"ab"), REFUSED + text(0) + text(1) + REFUSED)
        self.rig.disk.full = False
        self.rig.advance(5)
        self.asks(text(13) + pull(), PUSHED + text(2))
        self.assertEqual(self.pull_all(), [*range(3, 10), 13])
        # What was pulled meanwhile could not be noted then; it was later.
        self.assertEqual(self.rig.store.find("smq").first_number, 11)
        self.restart()
        self.assertEqual(self.pull_all(), [])

    def test_full_at_the_first(self) -> None:
        """Also where there is no queue yet; nothing is left of it."""
        self.rig.disk.full = True
        self.asks(text(1) + text(2) + pull(), REFUSED * 2 + EMPTY)
        self.rig.disk.full = False
        self.rig.advance(5)
        self.assertEqual(self.rig.store.names(), [])
        self.asks(text(3) + pull() * 2, PUSHED + text(3) + EMPTY)

    def test_full_in_flight(self) -> None:
        """What is pending when the disk is found full is refused, each push of it."""
        self.fill(1)
        self.rig.held = True
        self.peer.send(text(1) + push(1, 1, b"ab"))
        self.peer.send(text(2) + pull() * 2)
        self.rig.disk.full = True
        self.rig.release()
        self.assertEqual(self.peer.take(), REFUSED * 3 + text(0) + EMPTY)

    def test_unreadable(self) -> None:
        """A message that the disk does not give back stays; who pulls is closed, and the log says why."""
        events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        self.asks(push(0, 9, b"a message"), PUSHED)
        (path,) = [path for path in Path(self.rig.directory).rglob("*.journal") if b"a message" in path.read_bytes()]
        place = path.read_bytes().index(b"a message")

        def spoil(data: bytes) -> None:
            with path.open("r+b") as file:
                file.seek(place)
                file.write(data)

        spoil(b"A")
        self.asks(pull() * 2, b"")
        self.assertEqual((self.peer.closed, self.peer.aborted), (True, False))
        self.assertTrue([event for event in events if "can't be read" in str(event.get("log_format"))])
        spoil(b"a")
        self.asks(pull() * 2, push(0, 9, b"a message") + EMPTY, self.rig.connect())


class QueuesTests(SmqCase):
    """One queue for an endpoint, several on several."""

    def configured(self, text: str) -> list[Any]:
        """The factories of all SMQ endpoints of a configuration, in order."""
        path = Path(self.mktemp())
        path.write_text(text)
        config = load(str(path), Overrides(), found_protocols(), Clock())
        services = [each for each in config.services if each.protocol.name == "smq"]
        return [each.protocol.factory(self.rig.core, each.settings) for each in services]

    def test_default(self) -> None:
        """Without a word it is `smq`."""
        (factory,) = self.configured("")
        self.asks(text(1), PUSHED, self.rig.connect(factory))
        self.assertEqual(self.rig.store.names(), ["smq"])
        self.asks(pull(), text(1))

    def test_several(self) -> None:
        """What is pushed to one is pulled from that one alone."""
        first, second = self.configured(
            '[[smq]]\nendpoint = "tcp:1"\nqueue = "orders"\n[[smq]]\nendpoint = "tcp:2"\nqueue = "grüße/2"\n'
        )
        one, other = self.rig.connect(first), self.rig.connect(second)
        self.asks(text(1) + text(2), PUSHED * 2, one)
        self.asks(pull() + text(3), EMPTY + PUSHED, other)
        self.assertEqual(self.rig.store.names(), ["orders", "grüße/2"])
        self.asks(pull() * 3, text(1) + text(2) + EMPTY, one)
        self.asks(pull() * 2, text(3) + EMPTY, other)
        self.asks(pull(), EMPTY)

    def test_one_on_several_endpoints(self) -> None:
        """A queue with two endpoints, in one table or in two, is still one: nobody gets what another one has."""
        for name, table in (
            ("a", '[smq]\nendpoint = ["tcp:1", "unix:x"]\nqueue = "a"\n'),
            ("b", '[[smq]]\nendpoint = "tcp:1"\nqueue = "b"\n[[smq]]\nendpoint = "tcp:2"\nqueue = "b"\n'),
        ):
            first, second = self.configured(table)
            one, other = self.rig.connect(first), self.rig.connect(second)
            self.asks(texts(range(6)), PUSHED * 6, one)
            self.rig.held = True
            self.asks(pull() * 2, texts(range(2)), one)
            self.asks(pull() * 2, texts(range(2, 4)), other)
            self.asks(pull() * 3, texts(range(4, 6)) + EMPTY, one)
            self.asks(pull(), EMPTY, other)
            self.rig.release()
            self.assertEqual(self.rig.store.find(name).first_number, 6)

    def test_bad(self) -> None:
        """A name that no segment can have, and a key that is none, are refused with the place."""
        for table in ('queue = ""', f'queue = "{"x" * 256}"', 'queue = "a\\u0000"', "queue = 1", 'queues = "a"'):
            error = self.assertRaises(ConfigError, self.configured, f"[smq]\n{table}\n")
            self.assertIn("smq.queue", str(error))
