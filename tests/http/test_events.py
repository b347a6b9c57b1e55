"""/events: one stream a page, all that it shows, and no more than the peer takes."""

from __future__ import annotations

from typing import Any

from streamd.batch import Batch
from streamd.http.sampling import SAMPLES_MAX
from streamd.http.site import HttpSettings
from tests.rigs.http.case import SiteCase, Visitor, parse, request


class OverviewTests(SiteCase):
    def test_first(self) -> None:
        """The first event comes at once and has everything."""
        self.create("b", "a")
        self.rig.publish("a", b"one", b"two")
        stream = self.watch("/events")
        head = parse(stream.transport.value() + b"0\r\n\r\n")
        self.assertEqual(head.headers["content-type"], "text/event-stream; charset=utf-8")
        self.assertIn(b"retry: 3000\n\n", head.body)
        (event,) = stream.events()
        self.assertEqual(
            set(event), {"state", "samples", "protocols", "addresses", "limits", "store", "groups", "segments"}
        )
        self.assertIsNone(event["state"]["not_ready"])
        self.assertEqual([row["name"] for row in event["segments"]["rows"]], ["a", "b"])
        self.assertEqual(event["segments"]["rows"][0]["number"], 2)
        self.assertEqual(event["store"]["journal_files"], 1)
        self.assertIn("http", [each["name"] for each in event["protocols"]])

    def test_each_second(self) -> None:
        """One event a second, each with the samples since the last, and the newest figures."""
        self.create("a")
        stream = self.watch("/events")
        stream.events()
        peer = self.rig.connect()
        for second in range(1, 6):
            peer.ask(b"@a\n" if second == 1 else b"")
            peer.ask(b">x\n" * 10)
            self.rig.advance(1)
            (event,) = stream.events()
            (sample,) = event["samples"]
            self.assertEqual(sample[0], second)
            self.assertEqual(sample[1:3], [10.0, 10.0])
            self.assertEqual(event["segments"]["rows"][0]["number"], 10 * second)

    def test_history(self) -> None:
        """A page that is opened late sees what was, up to a limit; a second page changes nothing for the first."""
        self.rig.advance(SAMPLES_MAX + 50)
        first, second = self.watch("/events"), self.watch("/events")
        for stream in (first, second):
            (event,) = stream.events()
            numbers = [sample[0] for sample in event["samples"]]
            self.assertEqual(numbers, list(range(51, SAMPLES_MAX + 51)))
        self.rig.advance(1)
        self.assertEqual([len(each.events()[0]["samples"]) for each in (first, second)], [1, 1])

    def test_search(self) -> None:
        """A page asks for the segments that it shows, and gets no others."""
        self.create(*(f"topic-{number:03}" for number in range(120)), "Ünïcode", "other")
        rows = self.rows("/events?search=TOPIC&page=2")
        self.assertEqual(rows["total"], 120)
        self.assertEqual((rows["page"], rows["pages"]), (2, 3))
        self.assertEqual([row["name"] for row in rows["rows"]], [f"topic-{number:03}" for number in range(50, 100)])
        self.assertEqual(self.rows("/events?search=%C3%BCN%C3%8FC")["rows"][0]["name"], "Ünïcode")
        self.assertEqual(self.rows("/events?search=nothing-like-it")["rows"], [])
        self.assertEqual(self.rows("/events?page=99")["rows"], [])

    def rows(self, path: str) -> dict[str, Any]:
        stream = self.watch(path)
        (event,) = stream.events()
        stream.leave()
        found: dict[str, Any] = event["segments"]
        return found

    def test_bad(self) -> None:
        """A question that makes no sense is refused with the reason."""
        for query in ("sort=price", "page=x", "page=-1", "page=99999999999999999999", "segment=a&from=1.5", "a=%ff"):
            answer = self.ask(f"/events?{query}")
            self.assertEqual(answer.status, 400, query)
            self.assertRegex(answer.text, r"^(sort|page|from): expected|^not UTF-8")


class SegmentTests(SiteCase):
    def test_records(self) -> None:
        """The last records, and new ones when there are some; nothing is read again where nothing has changed."""
        self.create("a")
        self.rig.publish("a", *[b"record %d" % number for number in range(30)])
        stream = self.watch("/events?segment=a")
        (event,) = stream.events()
        self.assertEqual(event["segment"]["number"], 30)
        self.assertEqual([each["shown"] for each in event["records"]], [f"record {n}" for n in range(10, 30)])
        self.rig.advance(1)
        self.assertNotIn("records", stream.events()[0])
        self.rig.publish("a", b"<b>new</b>")
        self.rig.advance(1)
        self.assertEqual(stream.events()[0]["records"][-1]["shown"], "<b>new</b>")

    def test_from(self) -> None:
        """Records from a number on; where these are gone, the first that are left."""
        (segment,) = self.create("a")
        self.rig.publish("a", *[b"%d" % number for number in range(100)])
        self.assertEqual(self.numbers("/events?segment=a&from=7"), list(range(7, 27)))
        self.assertEqual(self.numbers("/events?segment=a&from=95"), list(range(95, 100)))
        self.assertEqual(self.numbers("/events?segment=a&from=100"), [])
        self.assertEqual(self.numbers("/events?segment=a&from=9999999"), [])
        self.rig.store.truncate(segment, 50)
        self.rig.run()
        self.assertEqual(self.numbers("/events?segment=a&from=7"), list(range(50, 70)))

    def numbers(self, path: str) -> list[int]:
        stream = self.watch(path)
        (event,) = stream.events()
        stream.leave()
        return [record["number"] for record in event["records"]]

    def test_comes_and_goes(self) -> None:
        """A segment that is not there, is made, deleted, and made again."""
        stream = self.watch("/events?segment=a")
        self.assertIsNone(stream.events()[0]["segment"])
        for _ in range(2):
            (segment,) = self.create("a")
            self.rig.publish("a", b"x")
            self.rig.advance(1)
            self.assertEqual(len(stream.events()[-1]["records"]), 1)
            self.rig.store.delete(segment)
            self.rig.run()
            self.rig.advance(1)
            self.assertIsNone(stream.events()[-1]["segment"])

    def test_groups(self) -> None:
        """Its reader groups, those furthest behind first, and not all of thousands."""
        (segment,) = self.create("a")
        self.rig.publish("a", *[b"x"] * 200)
        for number in range(150):
            self.rig.store.set_group(segment, f"group-{number}", number)
        self.rig.run()
        (event,) = self.watch("/events?segment=a").events()
        self.assertEqual(event["segment"]["groups_total"], 150)
        self.assertEqual(len(event["segment"]["groups"]), 100)
        shown = event["segment"]["groups"][0]
        self.assertEqual((shown["group"], shown["position"], shown["lag"]), ("group-0", 0, 200))
        self.assertEqual((shown["members"], shown["waiting"], shown["dead_letters"]), (0, 0, 0))


class SlowTests(SiteCase):
    settings = HttpSettings(streams_max=3)

    def pause(self, stream: Visitor) -> None:
        """The peer takes nothing."""
        stream.transport.producer.pauseProducing()

    def test_slow(self) -> None:
        """For a peer that takes nothing nothing is kept; when it takes again, it has what it missed in one event."""
        stream = self.watch("/events")
        stream.events()
        self.pause(stream)
        self.rig.advance(50)
        self.assertEqual(stream.take(), b"")
        stream.transport.producer.resumeProducing()
        self.rig.advance(1)
        (event,) = stream.events()
        self.assertEqual(len(event["samples"]), 51)

    def test_stuck(self) -> None:
        """One that takes nothing for long is cut off, and the others are not."""
        stuck, other = self.watch("/events"), self.watch("/events")
        self.pause(stuck)
        self.rig.advance(63)
        self.assertTrue(stuck.transport.disconnected)
        self.assertFalse(other.transport.disconnected)
        self.assertEqual(len(other.events()), 64)

    def test_limit(self) -> None:
        """There are as many streams as allowed; the next is told why, and when one ends there is room."""
        streams = [self.watch("/events") for _ in range(3)]
        answer = self.ask("/events")
        self.assertEqual((answer.status, answer.text), (503, "too many pages are open, see http.streams_max\n"))
        self.assertEqual(+self.rig.load.traffic_of("http").requests_refused, {"streams": 1})
        self.assertEqual(self.ask("/metrics").status, 200)
        streams[0].leave()
        self.assertEqual(len(self.watch("/events").events()), 1)

    def test_gone(self) -> None:
        """Who leaves is forgotten: no clock ticks for it."""
        before = len(self.rig.clock.getDelayedCalls())
        streams = [self.watch("/events") for _ in range(3)]
        self.assertGreater(len(self.rig.clock.getDelayedCalls()), before)
        for stream in streams:
            stream.leave()
        self.assertEqual(len(self.rig.clock.getDelayedCalls()), before)

    def test_pipelined(self) -> None:
        """A stream has its connection for itself: what is sent behind it waits, and is not answered in it."""
        visitor = self.visit()
        visitor.send(request("/events") + request("/healthz"))
        self.rig.run()
        self.assertNotIn(b"alive", visitor.take())

    def test_large(self) -> None:
        """An event is small, also where records are large and segments have long names."""
        self.create(*(f"{number:03}" + "n" * 250 for number in range(100)))
        (segment,) = self.create("large")
        for _ in range(5):
            self.rig.store.append(segment, Batch.of([b"x" * 500_000] * 3))
            self.rig.run()
        self.assertLess(len(self.watch("/events").take()), 64 << 10)
        self.assertLess(len(self.watch("/events?segment=large").take()), 64 << 10)


class FailingTests(SiteCase):
    """Something that nobody foresaw: what is counted of a protocol is not what it should be."""

    def test_samples(self) -> None:
        """A sample that can't be taken is counted, and the next ones are taken."""
        page = self.watch("/events?segment=a")
        self.rig.advance(2)
        self.rig.load.traffic["broken"] = None  # type: ignore[assignment]
        self.rig.advance(3)
        del self.rig.load.traffic["broken"]
        self.rig.advance(2)
        taken = [sample.number for sample in self.site._sampler.taken]
        self.assertEqual(taken, [1, 2, 3, 4])
        self.assertEqual(len(self.flushLoggedErrors(AttributeError)), 1)
        self.assertIn('streamd_loop_failures_total{loop="sampling"} 3.0', self.ask("/metrics").text)
        self.assertFalse(page.transport.disconnecting)

    def test_page(self) -> None:
        """A page whose events can't be told is closed, once, and asks again; the others see no difference."""
        page, other = self.watch("/events"), self.watch("/events?segment=a")
        self.rig.load.traffic["broken"] = None  # type: ignore[assignment]
        self.rig.advance(3)
        self.assertTrue(page.transport.disconnecting)
        page.leave()
        del self.rig.load.traffic["broken"]
        self.rig.advance(1)
        self.assertEqual(len(other.events()), 5)
        self.assertEqual(len(self.watch("/events").events()), 1)
        self.assertIn('streamd_loop_failures_total{loop="events"} 1.0', self.ask("/metrics").text)
        self.assertEqual(len(self.flushLoggedErrors(AttributeError)), 2)  # the sampler's too
