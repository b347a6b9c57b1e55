"""/healthz and /readyz: alive, and ready or why not."""

from __future__ import annotations

from dataclasses import replace

from twisted.internet.error import ProcessDone
from twisted.python.failure import Failure

from streamd.batch import Batch
from streamd.http.health import reason_not_ready
from streamd.http.site import HttpSite
from streamd.store import StoreReadOnly
from streamd.store.commit import pipeline
from streamd.store.packs.compaction import Compaction
from tests.rigs.http.case import SiteCase
from tests.rigs.store.inline import Compactor
from tests.rigs.store.reactor import Reactor


class HealthTests(SiteCase):
    def fill_disk(self) -> None:
        """The disk is full, and a write has found out."""
        (segment,) = self.create("a")
        self.rig.disk.full = True
        refused = self.rig.store.append(segment, Batch.of([b"x" * 5000] * 300))
        self.rig.run()
        self.failureResultOf(refused, StoreReadOnly)

    def test_well(self) -> None:
        """A daemon that is well is alive and ready."""
        self.assertEqual(self.ask("/healthz").text, "alive\n")
        answer = self.ask("/readyz")
        self.assertEqual((answer.status, answer.text), (200, "ready\n"))

    def test_full(self) -> None:
        """On a full disk it is alive, and not ready until writes work again; and says why."""
        self.fill_disk()
        for _ in range(5):
            answer = self.ask("/readyz")
            self.assertEqual((answer.status, answer.text), (503, "the disk is full\n"))
            self.assertEqual(self.ask("/healthz").status, 200)
            self.rig.store.seek_room()
            self.rig.advance(2)
        self.rig.disk.full = False
        self.assertEqual(self.ask("/readyz").status, 503)
        # Nobody writes to what is not ready: it looks by itself.
        for _ in range(2):
            self.rig.store.seek_room()
            self.rig.advance(1)
        self.assertEqual(self.ask("/readyz").status, 200)
        self.rig.publish("a", b"x")

    def test_no_compactor(self) -> None:
        """It is not ready while writers wait for a compactor that can't be started."""
        self.patch(pipeline, "UNFOLDED_ENTRIES_MAX", 1)
        reactor = Reactor()
        reactor.error = OSError(24, "Too many open files")
        store = self.rig.store
        store.compaction = Compaction(store, self.rig.directory, reactor)
        store.compaction.start()
        (segment,) = self.create("a")
        self.assertEqual(self.ask("/readyz").status, 200)
        for _ in range(3):
            store.append(segment, Batch.of([b"x" * 800_000]))
            self.rig.run()
        self.assertTrue(store.waits_for_fold)
        answer = self.ask("/readyz")
        self.assertEqual((answer.status, answer.text), (503, "writers wait for the compactor, which does not run\n"))
        reactor.error = None
        reactor.advance(1)
        self.assertEqual(self.ask("/readyz").status, 200)
        # So that the store closes.
        store.compaction.processEnded(Failure(ProcessDone(0)))
        Compactor(self.rig.disk, store, self.rig.directory).fold()
        self.rig.run()

    def test_not_serving(self) -> None:
        """Before all endpoints are up, and when the daemon is about to end, it is not ready."""
        serving: list[bool] = []
        core = replace(self.rig.core, serving=lambda: bool(serving))
        self.site.stopFactory()
        self.site = HttpSite(core, self.settings)
        self.site.startFactory()
        answer = self.ask("/readyz")
        self.assertEqual((answer.status, answer.text), (503, "the daemon is starting or stopping\n"))
        serving.append(True)
        self.assertEqual(self.ask("/readyz").status, 200)

    def test_closing(self) -> None:
        """A store that closes takes nothing."""
        self.rig.store.close()
        self.assertEqual(reason_not_ready(self.rig.core), "the store is closing")
        self.rig.closed = True
