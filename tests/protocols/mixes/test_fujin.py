"""Any mix of requests on any number of Fujin's streams is answered as if each had been sent alone."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from streamd.wire.client import fujin as client
from tests.protocols.laws.description import LIMITS
from tests.protocols.laws.fujin_readers import split
from tests.protocols.mixes.fujin import SEALED, Group, LoneReader, MixRig, Script, Sharer, Stream, Writer, message
from tests.protocols.mixes.machinery import seeds

TOPICS = ("a", "b", "c")
KINDS = {
    "auto": {"auto_commit": True, "group": "g"},
    "manual": {"auto_commit": False, "group": "g"},
    "lone": {"auto_commit": True, "group": ""},
    "lone manual": {"auto_commit": False, "group": ""},
}


class AloneTests(SynchronousTestCase):
    """Writers, and readers that have a group for themselves: each stream is told what its own requests say."""

    def test_mixes(self) -> None:
        """All at once, with slow syncs, cold pages, little memory, slow peers, and cut anywhere."""
        for seed in seeds():
            self.seed = seed
            self.try_mix(Random(seed))

    def try_mix(self, random: Random) -> None:
        outstanding_max = random.choice((1, 2, 5, 10_000))
        topics = {
            f"{kind} {number}": kind for number, kind in enumerate(random.choices(list(KINDS), k=random.randrange(4)))
        }
        names = {name: KINDS[kind] | {"topic": name} for name, kind in topics.items()}
        names["live"] = KINDS["lone"] | {"topic": TOPICS[0]}
        rig = MixRig(names, replace(LIMITS, outstanding_records_max=outstanding_max))
        rig.furnish(SEALED, [])
        rig.store.seal(rig.store.find(SEALED))
        rig.run()
        writers = [
            Writer(random, number, TOPICS).make(random.choice((5, 15, 30))) for number in range(random.randrange(4))
        ]
        readers: dict[str, LoneReader] = {}
        for name, kind in topics.items():
            records = [message(number) for number in range(random.randrange(13))]
            rig.furnish(name, records)
            auto = bool(KINDS[kind]["auto_commit"])
            reader = LoneReader(random, name, records, auto=auto, consumer=random.random() < 0.7)
            readers[name] = reader.make(random.choice((5, 15, 30)), outstanding_max)
        scripts = [*[each.script for each in writers], *[each.script for each in readers.values()]]
        streams = [Stream(random, rig.connect(), script) for script in scripts]
        live = rig.subscriber("live") if random.random() < 0.5 else None
        self.drive(random, rig, streams)
        for stream in streams:
            self.check(stream)
        self.check_stored(rig, writers)
        if live is not None:
            messages = split(live.take_all(), 0)[1]
            self.assertEqual([each[5:] for each in messages], rig.stored(TOPICS[0]), f"seed {self.seed}")
        for name, reader in readers.items():
            self.check_group(rig, name, reader, topics[name])
        for stream in streams:
            stream.peer.drop()
        self.assertEqual(rig.hidden, [], f"seed {self.seed}")
        rig.close()
        self.assertEqual(rig.load.held_bytes, 0, f"seed {self.seed}")
        self.assertEqual(rig.clock.getDelayedCalls(), [], f"seed {self.seed}")

    def drive(self, random: Random, rig: MixRig, streams: list[Stream]) -> None:
        while sending := [each for each in streams if each.pieces]:
            rig.stir(random)
            random.choice(sending).step()
            if random.random() < 0.3:
                random.choice(streams).take()
        while random.random() < 0.8:
            rig.stir(random)
        rig.settle()
        # Twice: what one peer took may have let another one go on.
        for stream in streams * 2:
            stream.told += stream.peer.take_all()

    def check(self, stream: Stream) -> None:
        """All replies to the byte, in their order, and the messages in theirs; then the end."""
        script, peer = stream.script, stream.peer
        text = f"seed {self.seed}:\n{script.explain(stream.told, peer.code, peer.closed)}"
        answers, messages = split(stream.told, script.meta_bytes)
        self.assertEqual(answers, script.replies, text)
        if may_be_less(script):
            self.assertEqual(messages, script.messages[: len(messages)], text)
        else:
            self.assertEqual(messages, script.messages, text)
        self.assertEqual((peer.closed, peer.aborted), (script.code is not None, False), text)
        self.assertEqual(peer.code, script.code or 0, text)

    def check_stored(self, rig: MixRig, writers: list[Writer]) -> None:
        """Each topic holds what was acknowledged and no more; in each writer's order; transactions in one piece."""
        for topic in TOPICS:
            stored = rig.stored(topic)
            owned: list[list[bytes]] = []
            for number, writer in enumerate(writers):
                units = [[record for name, record in unit if name == topic] for unit in writer.units]
                own = [record for record in stored if record.startswith(b"%d:" % number)]
                self.assertEqual(own, [record for unit in units for record in unit], f"seed {self.seed}, {topic}")
                owned += [unit for unit in units if unit]
            self.assertEqual(len(stored), sum(map(len, owned)), f"seed {self.seed}, {topic}")
            for unit in owned:
                at = stored.index(unit[0])
                self.assertEqual(stored[at : at + len(unit)], unit, f"seed {self.seed}, {topic}")

    def check_group(self, rig: MixRig, name: str, reader: LoneReader, kind: str) -> None:
        """What is acknowledged is on disk."""
        known = (rig.store.find(name).groups or {}).get("g")
        if not KINDS[kind]["group"]:
            self.assertIsNone(known)
        elif not may_be_less(reader.script):
            expected = reader.acknowledged
            found = set() if known is None else {number for number in range(20) if number in known}
            self.assertEqual(found, expected, f"seed {self.seed}, {name}")


class SharedTests(SynchronousTestCase):
    """Readers that share a group: each message is with one of them at a time, until it is acknowledged."""

    def test_mixes(self) -> None:
        """Readers come, fetch, acknowledge, give back, disconnect and vanish, while messages are written."""
        for seed in seeds():
            try:
                self.try_mix(Random(seed))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {error}") from error

    def try_mix(self, random: Random) -> None:
        names = {name: KINDS[name] | {"topic": "t"} for name in ("auto", "manual")}
        names["all"] = names["auto"]
        limits = replace(LIMITS, outstanding_records_max=random.choice((1, 3, 10_000)))
        rig, group = MixRig(names, limits), Group()
        rig.furnish("t", [])
        writer = rig.connect_writer()
        readers: list[Sharer] = []
        kinds = random.choice((("auto",), ("manual",), ("auto", "manual")))

        def join() -> None:
            kind = random.choice(kinds)
            name = f"reader {len(readers)} {kind}"
            consumer = random.random() < 0.6
            readers.append(Sharer(random, group, rig.connect(), name=name, auto=kind == "auto", consumer=consumer))

        join()
        for _ in range(random.choice((20, 60, 150))):
            rig.stir(random)
            there = [each for each in readers if not each.leaving]
            draw = random.random()
            if draw < 0.15:
                count = random.choice((1, 1, 3, 10))
                records = [message(number) for number in range(group.published, group.published + count)]
                group.published += count
                writer.send(client.writes(0, "t", records))
            elif (draw < 0.22 and len(there) < 4) or not there:
                join()
            elif draw < 0.25:
                random.choice(there).go()
            elif draw < 0.6:
                random.choice(there).take()
            else:
                random.choice(readers).step() if random.random() < 0.1 else random.choice(there).step()
        self.check(rig, group, readers)

    def check(self, rig: MixRig, group: Group, readers: list[Sharer]) -> None:
        """In the end all replies have come, and whoever is left gets just what is not acknowledged."""
        rig.settle()
        there = [each for each in readers if not each.gone]
        for _ in range(2):
            for reader in there:
                reader.finish()
        for reader in there:
            reader.go()
        rig.settle()
        known = (rig.store.find("t").groups or {}).get("g")
        done = {number for number in range(group.published) if known is not None and number in known}
        self.assertEqual(done - group.perhaps, group.done - group.perhaps)
        last = rig.subscriber("all")
        self.assertEqual(
            [each[5:] for each in split(last.take_all(), 0)[1]],
            [message(number) for number in range(group.published) if number not in done],
        )
        rig.close()
        self.assertEqual((rig.load.held_bytes, rig.clock.getDelayedCalls()), (0, []))


def may_be_less(script: Script) -> bool:
    """Whether messages may be missing in the end: the stream was broken off, or a subscriber's ended."""
    return script.code is not None and (script.code > 0 or not any(each.startswith("fetch") for each in script.asked))
