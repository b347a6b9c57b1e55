"""The layout tells the architecture: imports go one way, and rooms stay small."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.rooms import ORDER, PAGE, ROOT, doors, modules, page, room_of

LINES_MAX = 600


class RoomsTests(SynchronousTestCase):
    def test_every_room_has_its_place(self) -> None:
        """No room is left out of the order, and none stands in it that is not there."""
        rooms = {room_of(name) for name in modules()} - {""}
        self.assertEqual(rooms, set(ORDER) & rooms, "give it a place in tests/rooms.py")
        self.assertEqual(set(ORDER) - rooms, set(), "there is no such room")

    def test_one_way(self) -> None:
        """A room imports only from those before it."""
        place = {room: at for at, room in enumerate(ORDER)}
        wrong = [
            text
            for room, reached in doors().items()
            for there, texts in reached.items()
            if place[there] > place[room]
            for text in sorted(texts)
        ]
        self.assertEqual(wrong, [])

    def test_sizes(self) -> None:
        """No module is longer than a person reads in one go, no folder has more than 15 modules."""
        paths = list((ROOT / "streamd").rglob("*.py"))
        long = [str(path.relative_to(ROOT)) for path in paths if len(path.read_bytes().splitlines()) > LINES_MAX]
        self.assertEqual(long, [])
        folders: Counter[Path] = Counter(path.parent for path in paths if path.name != "__init__.py")
        crowded = [str(folder.relative_to(ROOT)) for folder, count in folders.items() if count > 15]
        self.assertEqual(crowded, [])

    def test_picture(self) -> None:
        """The picture of the rooms is that of the imports: ``python -m tests.rooms`` draws it anew."""
        self.assertEqual(PAGE.read_text(encoding="utf-8"), page())
