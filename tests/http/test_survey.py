"""Looking over many segments: the right ones, in order, a few at a time, and not again for each who asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from streamd.access.permits import Permits
from streamd.batch import Batch
from streamd.http.survey import PAGE_ROWS, PAGES_MAX, Found, Query, Survey
from tests.rigs.http.case import SiteCase

EVERYTHING = Permits(None)
NAMES = st.lists(st.text("abAB-ß", min_size=1, max_size=6), unique=True, max_size=200)


class SurveyTests(SiteCase):
    def setUp(self) -> None:
        super().setUp()
        self.survey = Survey(self.rig.core)

    def names(self, query: Query) -> list[str]:
        found = self.done(self.survey.segments(query, EVERYTHING))
        return [segment.name for segment in found.segments]

    @settings(max_examples=25, deadline=None)
    @given(NAMES, st.text("abAB-ß", max_size=2), st.integers(1, 5))
    def test_search(self, names: list[str], search: str, page: int) -> None:
        """A page holds what sorting and cutting all names would give."""
        for old in self.rig.store.names():
            self.rig.store.delete(self.rig.store.find(old))
        self.create(*names)
        wanted = sorted(name for name in names if search.casefold() in name.casefold())
        found = self.done(Survey(self.rig.core).segments(Query(search, "name", page), EVERYTHING))
        shown = wanted[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
        self.assertEqual([segment.name for segment in found.segments], shown)
        self.assertEqual((found.total, found.pages), (len(wanted), -(-len(wanted) // PAGE_ROWS)))

    def test_sorts(self) -> None:
        """By name, by when it was written to, and by what is kept of it."""
        self.create("c", "a", "b")
        self.rig.publish("a", b"x" * 100)
        self.rig.publish("b", b"x" * 10)
        self.assertEqual(self.names(Query(sort="name")), ["a", "b", "c"])
        self.assertEqual(self.names(Query(sort="recent")), ["b", "a", "c"])
        self.assertEqual(self.names(Query(sort="size")), ["a", "b", "c"])
        self.rig.store.truncate(self.rig.store.find("a"), 1)
        self.rig.run()
        self.rig.advance(6)
        self.assertEqual(self.names(Query(sort="size")), ["b", "a", "c"])

    def test_many(self) -> None:
        """Thousands are looked at in many turns of the reactor, and only the pages up to a limit are kept."""
        total = PAGES_MAX * PAGE_ROWS + 700
        self.create(*(f"{number:05}" for number in range(total)))
        turns: list[int] = []
        found = self.beside(Query("", "name", PAGES_MAX), lambda: turns.append(1))
        self.assertGreaterEqual(len(turns), total // 500)
        self.assertEqual(found.total, total)
        self.assertEqual(found.pages, PAGES_MAX)
        self.assertEqual(found.segments[-1].name, f"{PAGES_MAX * PAGE_ROWS - 1:05}")
        self.assertEqual(self.names(Query("", "name", PAGES_MAX + 5)), self.names(Query("", "name", PAGES_MAX)))

    def test_changes_meanwhile(self) -> None:
        """A segment that is deleted while they are looked over is left out; the rest is found."""
        segments = self.create(*(f"{number:04}" for number in range(2000)))

        def delete() -> None:
            if not segments[-1].deleted:
                self.rig.store.delete(segments[-1])
                self.rig.writer.run()

        self.assertEqual(self.beside(Query(), delete).total, 1999)

    def beside(self, query: Query, call: Callable[[], object]) -> Found:
        """What is found, while something else is done in each turn of the reactor."""
        found: list[Found] = []

        def turn() -> None:
            call()
            if not found:
                self.rig.clock.callLater(0, turn)

        self.survey.segments(query, EVERYTHING).addCallback(found.append)
        turn()
        self.rig.run()
        return found[0]

    def test_shared(self) -> None:
        """Who asks the same at the same time, or soon after, shares one answer; later it is looked up anew."""
        self.create("a")
        first, second = self.survey.segments(Query(), EVERYTHING), self.survey.segments(Query(), EVERYTHING)
        self.assertIs(self.done(first), self.done(second))
        self.create("b")
        self.assertEqual(self.names(Query()), ["a"])
        self.assertEqual(self.names(Query("b")), ["b"])
        self.rig.advance(5)
        self.assertEqual(self.names(Query()), ["a", "b"])

    def test_questions(self) -> None:
        """Any number of different questions is answered, and few are remembered."""
        self.create("a")
        for number in range(1200):
            self.names(Query(f"{number}"))
        self.assertLessEqual(len(self.survey._answers), 1000)

    def test_failure(self) -> None:
        """What can't be looked at fails for all who asked, and is tried again later."""
        packs = Path(self.rig.directory) / "packs"
        packs.rename(packs.with_name("elsewhere"))
        for _ in range(2):
            self.failureResultOf(self.survey.usage(), FileNotFoundError)
        packs.with_name("elsewhere").rename(packs)
        self.rig.advance(6)
        self.assertGreater(self.done(self.survey.usage()).disk_bytes, 0)

    def test_worst_groups(self) -> None:
        """Of many reader groups those furthest behind are named, and all are counted."""
        (segment,) = self.create("a")
        self.rig.store.append(segment, Batch.of([b"x"] * 200))
        self.rig.run()
        for number in range(140):
            self.rig.store.set_group(segment, f"g{number}", number)
        self.rig.run()
        groups = self.done(self.survey.groups())
        self.assertEqual((groups.total, groups.lag_records_max), (140, 200))
        self.assertEqual(groups.lag_records, sum(200 - number for number in range(140)))
        self.assertEqual([lag.group for lag in groups.worst], [f"g{number}" for number in range(100)])

    def test_after_restart(self) -> None:
        """Reader groups are known again when the store is opened again."""
        (segment,) = self.create("a")
        self.rig.publish("a", b"x", b"y")
        self.rig.store.set_group(segment, "g", 1)
        self.rig.run()
        self.done(self.rig.store.close())
        self.rig.store, self.rig.writer = self.rig._open()
        self.assertEqual([each.name for each in self.rig.store.grouped()], ["a"])
