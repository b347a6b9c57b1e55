"""A record that can't be read, since the disk fails or its bytes are damaged: nobody is told anything wrong for it."""

from __future__ import annotations

from collections.abc import Iterator

from twisted.logger import LogLevel

from streamd.protocols.sesp import SespFactory
from tests.protocols.laws.description import LIMITS
from tests.protocols.laws.every import READING, every
from tests.protocols.laws.faststream import FastStreamTake
from tests.protocols.laws.held import HeldLaw
from tests.protocols.laws.tools import Tools
from tests.rigs.protocols.rig import Apart, Peer
from tests.rigs.store.inline import DIRECTORY, JOURNAL, PACKS, Compactor
from tests.rigs.store.simulated import SimulatedDisk

FEW = [b"%04d" % number * 250 for number in range(6)]
MANY = [b"%04d" % number * 250 for number in range(160)]
"""More than one file of the journal holds."""


@every([*READING, FastStreamTake, Tools])
class Unreadable(HeldLaw):
    """Who asks for it gets the protocol's error, or is closed where there is none; nobody else notices."""

    def fill(self, records: list[bytes]) -> Apart:
        """A store with these records, each in a commit of its own; what is folded is not in memory any more."""
        self.close()
        self.medium = SimulatedDisk()
        kind: type[Apart] = type("ApartRig", (Apart, self.spoken.rig), {})
        rig = kind(DIRECTORY, limits=LIMITS, make_factory=self.spoken.factory, medium=self.medium)
        self._rigs.append(rig)
        (writer, wrote), (reader, _) = self.pair(rig)
        for record in records:
            self.talk(writer, wrote.write(record))
        writer.drop()
        reader.drop()
        return rig

    def place(self, record: bytes) -> tuple[str, int]:
        """The file that holds a record, and where."""
        for directory in (PACKS, JOURNAL):
            for name in self.medium.list_directory(directory):
                at = self.medium.content(f"{directory}/{name}").find(record)
                if at >= 0:
                    return f"{directory}/{name}", at
        raise AssertionError("it is nowhere")

    def troubles(self, record: bytes) -> Iterator[str]:
        """What can be wrong with a record, each until the next one."""
        path, at = self.place(record)
        content = self.medium.content(path)
        for cold in (False, True):
            self.medium.is_cold = cold
            content[at + 7] ^= 1
            yield f"damaged, cold {cold}"
            content[at + 7] ^= 1
            self.medium.break_at(path, at + 7)
            yield f"broken, cold {cold}"
            self.medium.mend(path)

    def try_record(self, rig: Apart, records: list[bytes], bad: int) -> None:
        """Each trouble of one record; then it is there again for whoever asks."""
        for what in self.troubles(records[bad]):
            witness, question = self.witness(rig)
            # What is for one of several alone is asked for by one at a time.
            peers = [self.opened(rig, number) for number in ((1,) if self.spoken.consumes else (1, 2))]
            rig.cold_held = True
            for peer, spoken in peers:
                peer.send(spoken.fetch(records).asked)
            self.talk(witness, question)
            rig.cold_held = False
            rig.run()
            gone = 0
            for peer, spoken in peers:
                told = peer.take_all()
                left = records[gone:]
                self.assertTrue(spoken.is_unread(left, bad - gone, told, peer.closed), (what, bad, told[:200]))
                self.assert_ended(peer)
                gone += self.spoken.taken(told)
            self.talk(witness, question)
            self.assert_others(rig)
            self.assertGreater(rig.load.traffic_of(self.spoken.name).requests_refused["read_failed"], 0)
            for peer in [witness, *[peer for peer, _ in peers]]:
                peer.drop()
            if gone:
                # What could be read is gone from the queue.
                records, bad = records[gone:], bad - gone
        self.medium.is_cold = False
        peer, spoken = self.opened(rig, 3)
        peer.send(spoken.fetch(records).asked)
        self.assertTrue(spoken.is_fetched(records, peer.take_all()), "mended")
        peer.drop()
        self.assertEqual((rig.load.connections, rig.load.held_bytes), (0, 0))
        self.assertEqual(rig.clock.getDelayedCalls(), [])
        self.assertEqual([event for event in self.events if event["log_level"] >= LogLevel.critical], [])

    def assert_ended(self, peer: Peer) -> None:
        """If it was closed, in order, so that it can read what it was told, and with a code where there are some."""
        self.assertFalse(peer.aborted)
        self.assertEqual(getattr(peer, "code", 0), self.spoken.unread_code if peer.closed else 0)

    def assert_others(self, rig: Apart) -> None:
        """Other topics go on."""
        name = b"topic%d" % len(rig.store.names())
        peer = rig.connect(SespFactory(rig.core))
        self.assertEqual(peer.ask(b"#%b\n@%b\n>still here\n<\n" % (name, name)), b"+\n+\n+\n+still here\n")
        peer.drop()

    def test_journal(self) -> None:
        """Of what is new, the first record, one in the middle, and the last one."""
        for bad in (0, 3, 5):
            self.try_record(self.fill(FEW), FEW, bad)

    def test_pack(self) -> None:
        """Of what is older."""
        for bad in (0, 70):
            rig = self.fill(MANY)
            rig.store.folded(Compactor(self.medium, rig.store).fold(told=False).file)
            rig.run()
            self.assertTrue(self.place(MANY[bad])[0].startswith(PACKS))
            self.try_record(rig, MANY, bad)
