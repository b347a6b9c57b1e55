"""Pravega's public client against a real daemon, which is killed in the middle of everything."""

from __future__ import annotations

import os
from itertools import groupby
from typing import Any

from tests.rigs.controller.case import ClientCase, client
from tests.rigs.controller.writing import piece

_SEGMENT = b"scope/%s/%d.#epoch.0"


def per_key(events: list[bytes]) -> dict[bytes, list[int]]:
    """The numbers in events of the form ``key:number``, by key, in their order."""
    parts = sorted((event.split(b":") for event in events), key=lambda part: part[0])
    return {key: [int(number) for _, number in group] for key, group in groupby(parts, key=lambda part: part[0])}


class StreamTests(ClientCase):
    """Scopes and streams."""

    def test_streams(self) -> None:
        """They are listed in the order of their creation, keep their tags, and end; all of it outlives a crash."""
        policy = client.StreamScalingPolicy.fixed_scaling_policy(3)
        none = client.StreamRetentionPolicy.none()
        self.assertFalse(self.manager.create_scope("scope"))
        self.assertTrue(self.manager.create_scope("another"))
        for name in ("z", "m", "a"):
            self.assertTrue(self.manager.create_stream_with_policy("scope", name, policy, none, [f"of {name}", "tag"]))
            self.assertFalse(self.manager.create_stream("scope", name, 1))
        self.crash()
        self.assertEqual(self.manager.list_scope(), ["scope", "another"])
        self.assertEqual(self.manager.list_stream("scope"), ["z", "m", "a"])
        self.assertEqual(sorted(self.manager.get_stream_tags("scope", "m")), ["of m", "tag"])
        self.assertTrue(self.manager.update_stream_with_policy("scope", "m", policy, none, ["new"]))
        self.assertTrue(self.manager.seal_stream("scope", "z"))
        self.crash()
        self.assertEqual(self.manager.get_stream_tags("scope", "m"), ["new"])
        self.assertTrue(self.manager.delete_stream("scope", "z"))
        self.assertTrue(self.manager.delete_scope("another"))
        self.assertEqual(self.manager.list_scope(), ["scope"])
        self.assertEqual(self.manager.list_stream("scope"), ["m", "a"])
        with self.assertRaisesRegex(Exception, "not empty"):
            self.manager.delete_scope("scope")


class EventTests(ClientCase):
    """Events, and who reads them."""

    def test_kill(self) -> None:
        """A writer with a thousand events in flight loses none, repeats none and keeps each key's order."""
        self.assertTrue(self.manager.create_stream("scope", "events", 3))
        count = 60_000
        self.crash_while("events", count)
        events = self.read([self.manager.create_reader_group("group", "scope", "events").create_reader("one")], count)
        self.assertEqual(per_key(events), {b"%d" % key: list(range(key, count, 10)) for key in range(10)})

    def test_without_key(self) -> None:
        """Events without a routing key, as text and as bytes."""
        self.assertTrue(self.manager.create_stream("scope", "events", 2))
        writer = self.manager.create_writer("scope", "events")
        for number in range(20):
            writer.write_event(f"text {number}")
            writer.write_event_bytes(b"bytes \x00\xff %d" % number)
        writer.flush()
        events = self.read([self.manager.create_reader_group("group", "scope", "events").create_reader("one")], 40)
        wanted = [each for number in range(20) for each in (b"text %d" % number, b"bytes \x00\xff %d" % number)]
        self.assertEqual(sorted(events), sorted(wanted))

    def test_readers(self) -> None:
        """Readers of a group share the events, also when one dies and when the daemon does: each event comes once."""
        self.assertTrue(self.manager.create_stream("scope", "events", 4))
        writer = self.manager.create_writer("scope", "events", 100)
        group = self.manager.create_reader_group("group", "scope", "events")
        first, second = (group.create_reader(name) for name in ("first", "second"))
        events: list[bytes] = []
        for part in range(4):
            for number in range(part * 100, part * 100 + 100):
                writer.write_event(f"{number % 7}:{number}", routing_key=str(number % 7))
            writer.flush()
            if part == 1:
                self.crash()
            if part == 2:
                first.reader_offline()
            events += self.read([second] if part >= 2 else [first, second], part * 100 + 100 - len(events))
        self.assertEqual(per_key(events), {b"%d" % key: list(range(key, 400, 7)) for key in range(7)})

    def test_dead_reader(self) -> None:
        """What a reader had that died comes to others: nothing is lost."""
        self.assertTrue(self.manager.create_stream("scope", "events", 2))
        writer = self.manager.create_writer("scope", "events", 100)
        for number in range(100):
            writer.write_event(str(number))
        writer.flush()
        group = self.manager.create_reader_group("group", "scope", "events")
        dead = group.create_reader("dead")
        self.read([dead], 10)
        group.reader_offline("dead")
        found: set[bytes] = set()
        living = group.create_reader("living")
        while len(found) < 100:
            found.update(self.read([living], 1))
        self.assertEqual(found, {b"%d" % number for number in range(100)})

    def test_large(self) -> None:
        """An event that is larger than a message comes back whole, in its place, after a crash too."""
        self.assertTrue(self.manager.create_stream("scope", "events", 1))
        writer = self.manager.create_writer("scope", "events")
        large = os.urandom(9 << 20)
        for event in (b"before", large, b"after"):
            writer.write_event_bytes(event)
        writer.flush()
        self.crash()
        group = self.manager.create_reader_group("group", "scope", "events")
        self.assertEqual(self.read([group.create_reader("one")], 3), [b"before", large, b"after"])

    def test_namespace(self) -> None:
        """A stream's segments are topics: what the client writes is read there, and the other way round."""
        self.assertTrue(self.manager.create_stream("scope", "events", 1))
        writer = self.manager.create_writer("scope", "events")
        writer.write_event("of the client")
        writer.flush()
        topic = _SEGMENT % (b"events", 0)
        self.assertEqual(self.sesp(b"@" + topic, b"<", b">of SESP"), [b"+", b"+of the client", b"+"])
        group = self.manager.create_reader_group("group", "scope", "events")
        self.assertEqual(self.read([group.create_reader("one")], 2), [b"of the client", b"of SESP"])


class ByteTests(ClientCase):
    """Byte streams."""

    def setUp(self) -> None:
        super().setUp()
        self.assertTrue(self.manager.create_stream("scope", "bytes", 1))

    def test_bytes(self) -> None:
        """What is written comes back at the same offsets, from wherever it is read; truncation counts bytes."""
        stream = self.manager.create_byte_stream("scope", "bytes")
        data = os.urandom(300_000)
        for at in range(0, len(data), 70_000):
            stream.write(data[at : at + 70_000])
        stream.flush()
        self.crash()
        self.assertEqual((stream.current_head_offset(), stream.current_tail_offset()), (0, len(data)))
        for offset in (0, 1, 69_999, 131_071, 131_072, 299_999):
            self.assertEqual(self.bytes_at(stream, offset, 1000), data[offset : offset + 1000])
        stream.truncate(123_457)
        self.assertEqual(stream.current_head_offset(), 123_457)
        self.crash()
        another = self.manager.create_byte_stream("scope", "bytes")
        self.assertEqual(another.current_head_offset(), 123_457)
        self.assertEqual(self.bytes_at(another, 123_457, 50), data[123_457:123_507])
        stream.write(b"at the tail")
        stream.flush()
        self.assertEqual(self.bytes_at(another, len(data), 11), b"at the tail")

    def test_kill(self) -> None:
        """A byte stream that is written while the daemon is killed has each byte once, in its place."""
        self.crash_while("pieces", 600)
        data = b"".join(map(piece, range(600)))
        again = self.manager.create_byte_stream("scope", "bytes")
        self.assertEqual(again.current_tail_offset(), len(data))
        self.assertEqual(self.bytes_at(again, 0, len(data)), data)

    def bytes_at(self, stream: Any, offset: int, count: int) -> bytes:
        """So many bytes from an offset on, or as many as there are."""
        stream.seek(offset, 0)
        found = bytearray()
        while len(found) < min(count, stream.current_tail_offset() - offset):
            piece = bytearray(count - len(found))
            found += piece[: stream.readinto(piece)]
        return bytes(found)


class TransactionTests(ClientCase):
    """Transactions."""

    def setUp(self) -> None:
        super().setUp()
        self.assertTrue(self.manager.create_stream("scope", "events", 3))
        self.writer = self.manager.create_transaction_writer("scope", "events", 1)

    def begin(self, word: str) -> Any:
        """A transaction with an event for each of ten keys."""
        transaction = self.writer.begin_txn()
        for number in range(10):
            transaction.write_event(f"{word}:{number}", routing_key=str(number))
        return transaction

    def test_ends(self) -> None:
        """What is committed is there, all of it, and what is aborted is not; nothing else can follow."""
        committed, aborted = self.begin("committed"), self.begin("aborted")
        self.assertTrue(committed.is_open() and aborted.is_open())
        self.assertEqual(self.sesp(b"@" + _SEGMENT % (b"events", 0), b"<"), [b"+", b"-None"])
        committed.commit()
        aborted.abort()
        self.assertFalse(committed.is_open() or aborted.is_open())
        for action in (committed.commit, committed.abort, aborted.commit, lambda: committed.write_event("late")):
            with self.assertRaises(client.TxnFailedException):
                action()
        self.crash()
        self.assertEqual(self.all(), [b"committed:%d" % number for number in range(10)])

    def test_crash(self) -> None:
        """A transaction that is open in a crash can be committed behind it, and what was committed stays so."""
        before, across = self.begin("before"), self.begin("across")
        before.commit()
        self.crash()
        across.commit()
        self.crash()
        words = (b"across", b"before")
        self.assertEqual(self.all(), [b"%s:%d" % (word, number) for word in words for number in range(10)])

    def test_kill(self) -> None:
        """Transactions one after the other, while the daemon is killed: each is there whole, or not at all."""
        self.crash_while("transactions", 60)
        committed = [number for number in range(60) if number % 3]
        found = {key: sorted(numbers) for key, numbers in per_key(self.all()).items()}
        self.assertEqual(found, {b"%d" % key: committed for key in range(10)})

    def all(self) -> list[bytes]:
        """All events of the stream, sorted."""
        found = []
        for segment in range(3):
            topic = b"@" + _SEGMENT % (b"events", segment)
            lines = self.sesp(topic, *[b"<"] * 500)[1:]
            found += [line[1:] for line in lines if line != b"-None"]
        return sorted(found)
