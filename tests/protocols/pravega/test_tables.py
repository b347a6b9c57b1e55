"""Tables: what is put, removed and walked through, over restarts and while old records are dropped."""

from __future__ import annotations

import random

from streamd.protocols.pravega import tables
from streamd.wire.pravega.tables import _ENTRIES, _KEYS, Entry, Key
from tests.rigs.protocols.pravega_today_case import TodayCase
from tests.rigs.wire.pravega_today import NEVER, created, data, key, long, many, message, text, update

NAME = "scope/group_kvtable/0.#epoch.0"


class TableTests(TodayCase):
    def setUp(self) -> None:
        super().setUp()
        self.patch(tables, "_KEPT", 20)
        self.assertEqual(self.peer.ask(message(70, long(5), text(NAME), text(""))), created(NAME, 5))

    def walk(self) -> dict[bytes, tuple[int, bytes]]:
        """All entries, page by page."""
        found: dict[bytes, tuple[int, bytes]] = {}
        after = b""
        while True:
            asked = message(85, long(6), text(NAME), text(""), (3).to_bytes(4), data(after))
            answer = self.peer.ask(asked)[8 + 8 + 2 + len(NAME) :]
            page, at = _ENTRIES.take(answer, 0)
            if not page:
                return found
            after = answer[at + 4 :]
            found.update({entry.key.data: (entry.key.version, entry.value) for entry in page})

    def test_any(self) -> None:
        """Puts and removals in any order, conditional or not: the table has what a dict has, and so it is read back."""
        chance = random.Random(4)
        model: dict[bytes, tuple[int, bytes]] = {}
        for step in range(600):
            name = b"k%d" % chance.randrange(12)
            version = chance.choice([NEVER, model.get(name, (-1, b""))[0], 10**6])
            if chance.random() < 0.7:
                answer = self.peer.ask(update(NAME, (name, version, b"%d" % step)))
                if version == 10**6:
                    self.assertEqual(answer[:4], (82).to_bytes(4))
                else:
                    self.assertEqual(answer[:4], (75).to_bytes(4))
                    model[name] = (int.from_bytes(answer[-8:]), b"%d" % step)
            else:
                answer = self.peer.ask(message(76, long(6), text(NAME), text(""), many(key(name, version)), long(-1)))
                self.assertEqual(answer[:4], (82 if version == 10**6 else 77).to_bytes(4))
                if version != 10**6:
                    model.pop(name, None)
            if step % 97 == 50:
                self.restart()
            if step % 10 == 0:
                self.assertEqual(self.walk(), model)
                keys = many(*[key(each) for each in (*model, b"none")])
                answer = self.peer.ask(message(78, long(6), text(NAME), text(""), keys))
                entries, _ = _ENTRIES.take(answer, 8 + 8 + 2 + len(NAME))
                wanted = [Entry(Key(each, place[0]), place[1]) for each, place in model.items()]
                self.assertEqual(list(entries), [*wanted, Entry(Key(b"none", -1), b"")])
        segment = self.rig.store.find(NAME)
        self.assertGreater(segment.first_number, 300, "old records were dropped")
        self.assertLess(segment.number - segment.first_number, 100)

    def test_delta(self) -> None:
        """Who follows a table sees each put since its position; one that is too far behind is told to begin anew."""
        for number in range(200):
            self.peer.ask(update(NAME, (b"k%d" % (number % 5), NEVER, b"%d" % number)))
        segment = self.rig.store.find(NAME)
        for position in (1, segment.number - 3, segment.number):
            asked = message(88, long(6), text(NAME), text(""), long(position), (1000).to_bytes(4))
            answer = self.peer.ask(asked)
            entries, at = _ENTRIES.take(answer, 8 + 8 + 2 + len(NAME))
            is_new, at_end, end = answer[at], answer[at + 1], int.from_bytes(answer[at + 2 :])
            self.assertEqual((is_new, at_end, end), (position == 1, 1, segment.number))
            self.assertEqual(len(entries), segment.number - max(position, segment.first_number))
            if position == 1:
                last = {entry.key.data: entry.value for entry in entries}
                self.assertEqual(last, {b"k%d" % (number % 5): b"%d" % number for number in range(195, 200)})

    def test_foreign(self) -> None:
        """What another protocol writes to the topic of a table is no part of it."""
        self.peer.ask(update(NAME, (b"k", -1, b"v")))
        self.rig.publish(NAME, b"not of the table", b"")
        self.restart()
        self.assertEqual(self.walk(), {b"k": (0, b"v")})

    def test_delete(self) -> None:
        """A table is deleted if it is empty, or in any case, as it is asked for; its successor is empty."""
        self.peer.ask(update(NAME, (b"k", -1, b"v")))
        for if_empty, kind in ((1, 80), (0, 31)):
            answer = self.peer.ask(message(71, long(6), text(NAME), bytes([if_empty]), text("")))
            self.assertEqual(answer[:4], kind.to_bytes(4))
        self.peer.ask(message(70, long(5), text(NAME), text("")))
        answer = self.peer.ask(message(83, long(6), text(NAME), text(""), (3).to_bytes(4), data(b"")))
        self.assertEqual(_KEYS.take(answer, 8 + 8 + 2 + len(NAME))[0], ())
