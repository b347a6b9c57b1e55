"""The layout tells the architecture: imports go one way, and rooms stay small."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.rooms import ORDER, PAGE, ROOT, doors, modules, page, room_of

LINES_MAX = 400
SUITES = ("project", "drivers", "protocols/laws", "protocols/mixes")
"""Folders of tests that have no namesake: what they test is no one module."""
TESTED_WITH = {"cli/spark": "drivers", "store/records": "store"}
"""Packages without tests of their own, and the tests that try them."""


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
        lengths = {path.relative_to(ROOT / "streamd").as_posix(): len(path.read_bytes().splitlines()) for path in paths}
        long = [name for name, length in lengths.items() if length > LINES_MAX]
        self.assertEqual(long, [])
        folders: Counter[Path] = Counter(path.parent for path in paths if path.name != "__init__.py")
        crowded = [str(folder.relative_to(ROOT)) for folder, count in folders.items() if count > 15]
        self.assertEqual(crowded, [])

    def test_picture(self) -> None:
        """The picture of the rooms is that of the imports: ``python -m tests.rooms`` draws it anew."""
        self.assertEqual(PAGE.read_text(encoding="utf-8"), page())


class MirrorTests(SynchronousTestCase):
    """The tests stand where the package has what they test."""

    def test_namesakes(self) -> None:
        """``test_module.py`` or ``test_module_aspect.py`` stands where the module does.

        The name of the folder stands for the package as a whole.
        """
        for path in (ROOT / "tests").rglob("test_*.py"):
            place = path.relative_to(ROOT / "tests")
            if place.as_posix().startswith(tuple(f"{suite}/" for suite in SUITES)):
                continue
            folder = ROOT / "streamd" / place.parent
            names = {folder.name} | {entry.stem for entry in folder.glob("[a-z]*")}
            words = place.stem.split("_")[1:]
            beginnings = {"_".join(words[:count]) for count in range(1, len(words) + 1)}
            self.assertTrue(names & beginnings, f"{place} has no namesake in {folder.relative_to(ROOT)}/")

    def test_every_package(self) -> None:
        """Every package has tests of its own, but for the few that are tested with others."""
        packages = [path.parent.relative_to(ROOT / "streamd") for path in (ROOT / "streamd").rglob("__init__.py")]
        untested = {
            package.as_posix()
            for package in packages
            if not any((ROOT / "tests" / package).rglob("test_*.py"))
            and not any((ROOT / "tests" / package.parent).glob(f"test_{package.name}*.py"))
        }
        self.assertEqual(untested, set(TESTED_WITH))

    def test_rigs(self) -> None:
        """What tests share is in ``tests/rigs/``, which has no tests: no module imports from one with tests."""
        self.assertEqual(list((ROOT / "tests" / "rigs").rglob("test_*.py")), [])
        for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "fuzz").rglob("*.py")]:
            imported = re.findall(
                r"^\s*(?:from|import) tests\b.*\btest_\w+", path.read_text(encoding="utf-8"), re.MULTILINE
            )
            self.assertEqual(imported, [], f"{path.relative_to(ROOT)}")
