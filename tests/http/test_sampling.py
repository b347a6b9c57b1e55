"""The history of topics: what was looked at has one, and it never grows beyond its bounds."""

from __future__ import annotations

from streamd.batch import Batch
from streamd.http.sampling import SAMPLES_MAX, TOPICS_MAX, History
from tests.rigs.http.case import SiteCase


class HistoryTests(SiteCase):
    def test_rates(self) -> None:
        """Who looks again sees what came since, in each second."""
        [segment] = self.create("a")
        history = History()
        self.assertEqual(history.rates(segment), [])
        for count in (1, 0, 3):
            self.done(self.rig.store.append(segment, Batch.of([b"x"] * count)))
            history.sample()
        self.assertEqual(history.rates(segment), [1, 0, 3])
        self.assertEqual(history.rates(segment, 2), [0, 3])

    def test_bounded(self) -> None:
        """Five minutes are kept, of topics that were looked at in the last five, and of so many at most."""
        topics = self.create(*[f"t{number}" for number in range(TOPICS_MAX + 5)])
        history = History()
        for topic in topics:
            history.rates(topic)
        self.assertEqual(len(history), TOPICS_MAX)
        for _ in range(SAMPLES_MAX + 1):
            history.rates(topics[-1])
            history.sample()
        self.assertEqual(len(history), 1)
        self.assertEqual(len(history.rates(topics[-1])), SAMPLES_MAX)
        self.done(self.rig.store.delete(topics[-1]))
        history.sample()
        self.assertEqual(len(history), 0)
