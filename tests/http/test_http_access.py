"""Rules of access, and what the dashboard tells to whom."""

from __future__ import annotations

from typing import Any

from streamd.http.site import OPEN
from streamd.settings import RIGHTS, AccessRule
from tests.rigs.access.rules import NOBODY, RIG_ADDRESS, rule
from tests.rigs.http.case import Answer, SiteCase, Visitor, request

TOPICS = ("orders", "orders.eu", "secret")


class RuledSiteCase(SiteCase):
    """A site with some topics, each with two records and a reader group, and rules that change."""

    def setUp(self) -> None:
        super().setUp()
        for segment in self.create(*TOPICS):
            self.rig.publish(segment.name, b"of %s" % segment.name.encode(), b"more")
            self.rig.store.set_group(segment, f"readers of {segment.name}", 0)
        self.rig.run()

    def put(self, *rules: AccessRule) -> None:
        self.rig.core.access.replace(rules, self.rig.clock.seconds())

    @property
    def refusals(self) -> int:
        return self.rig.load.refusals["not_allowed"]

    def event(self, path: str) -> dict[str, Any]:
        """What a page shows when it is opened."""
        stream = self.watch(path)
        (event,) = stream.events()
        stream.leave()
        return event

    def assert_refused(self, answer: Answer, reason: str) -> None:
        self.assertEqual(answer.status, 403, answer)
        self.assertEqual(answer.headers["content-type"], "text/plain; charset=utf-8")
        self.assertEqual(
            answer.text,
            f'{reason}: ask whoever runs streamd for a rule with "net:{RIG_ADDRESS}" as who, '
            "see [[access]] in streamd.toml\n",
        )


class RouteTests(RuledSiteCase):
    def test_nobody(self) -> None:
        """Who no rule fits gets the page, and whether the daemon is well; every other address tells what to do."""
        paths = [path.decode() for path in self.site.resource.children if path != b"topics"]
        self.assertEqual(set(paths) - {path.decode() for path in OPEN}, {"events", "metrics"})
        self.put(NOBODY)
        for path in paths:
            for method in ("GET", "HEAD"):
                before = self.refusals
                answer = self.ask(f"/{path}", method)
                if path.encode() in OPEN:
                    self.assertEqual((answer.status, self.refusals), (200, before), path)
                elif method == "HEAD":
                    self.assertEqual((answer.status, answer.body, self.refusals), (403, b"", before + 1), path)
                else:
                    self.assert_refused(answer, "no rule of access matches you")
        self.assertEqual(self.rig.load.traffic_of("http").requests_refused["not_allowed"], 4)
        self.assertEqual(self.ask("/no/such").status, 404)

    def test_every_question(self) -> None:
        """Whatever they ask for: they are not told that a question makes no sense, either."""
        self.put(NOBODY)
        for query in ("search=o", "sort=size&page=2", "segment=orders", "segment=orders&from=1", "sort=price"):
            self.assert_refused(self.ask(f"/events?{query}"), "no rule of access matches you")

    def test_metrics(self) -> None:
        """Any right on anything is enough for figures, which name no topic but those that one may know of."""
        for word in RIGHTS:
            self.put(NOBODY, rule(word, topics=("none",)))
            answer = self.ask("/metrics")
            self.assertEqual(answer.status, 200, word)
            self.assertIn("streamd_segments 3", answer.text)
            self.assertNotIn("orders", answer.text)
        self.put(NOBODY, rule("read", topics=("secret",)))
        self.assertIn('topic="secret"', self.ask("/metrics").text)
        self.assertNotIn("orders", self.ask("/metrics").text)

    def test_no_rules(self) -> None:
        """Without rules everybody is told everything."""
        self.assertEqual(self.event("/events")["segments"]["total"], 3)
        self.assertEqual(len(self.event("/events?segment=secret")["records"]), 2)
        self.put(NOBODY)
        self.put()
        self.assertEqual(self.event("/events")["segments"]["total"], 3)
        self.assertEqual(self.refusals, 0)


class OverviewTests(RuledSiteCase):
    def shown(self, event: dict[str, Any]) -> set[str]:
        """The topics that an overview tells of, in whatever part."""
        listed = {row["name"] for row in event["segments"]["rows"]}
        self.assertEqual(event["segments"]["total"], len(listed))
        self.assertEqual({each["segment"] for each in event["groups"]["worst"]}, listed)
        self.assertEqual(event["groups"]["total"], len(listed))
        self.assertEqual(event["groups"]["lag_records"], 2 * len(listed))
        return listed

    def test_listed(self) -> None:
        """Each right but create lets a peer know of a topic; others are neither listed nor counted nor found."""
        for word in RIGHTS:
            self.put(rule(word, topics=("orders*",)), rule("create"), rule(*RIGHTS, who="user:0"))
            expected = set() if word == "create" else {"orders", "orders.eu"}
            self.assertEqual(self.shown(self.event("/events")), expected, word)
            self.assertEqual(self.event("/events?search=secret")["segments"]["total"], 0)
            self.assertEqual(self.refusals, 0)

    def test_rules_add_up(self) -> None:
        """A peer sees what any of its rules lets it see."""
        self.put(rule("read", topics=("secret",)), rule("admin", topics=("*.eu", "none")))
        self.assertEqual(self.shown(self.event("/events")), {"secret", "orders.eu"})
        self.put(rule("read", topics=("secret",)), rule("write"))
        self.assertEqual(self.shown(self.event("/events")), set(TOPICS))

    def test_reload(self) -> None:
        """A change of the rules counts for the next event of an open page, whatever was looked up just before."""
        stream = self.watch("/events")
        self.assertEqual(self.shown(stream.events()[0]), set(TOPICS))
        for rules, expected in (
            ([rule("read", topics=("secret",))], {"secret"}),
            ([rule("read", topics=("orders",))], {"orders"}),
            ([], set(TOPICS)),
        ):
            self.put(*rules)
            self.rig.advance(1)
            (event,) = stream.events()
            self.assertEqual(self.shown(event), expected)

    def test_taken_away(self) -> None:
        """Who has no right left is told why, and that is the last that is heard."""
        self.put(rule("read"))
        stream = self.watch("/events")
        stream.take()
        self.put(NOBODY)
        self.rig.advance(1)
        told = stream.take()
        self.assertIn(b'event: refused\ndata: "no rule of access matches you: ask whoever', told)
        self.assertTrue(told.endswith(b"0\r\n\r\n"), told)
        self.rig.advance(3)
        self.assertEqual(stream.take(), b"")
        self.assertEqual(self.refusals, 1)

    def test_meanwhile(self) -> None:
        """What was looked up by rules that have changed before all was found is not shown."""
        self.create(*(f"orders-{number}" for number in range(2000)))
        stream = self.watch("/events")
        stream.events()
        # A new look at all segments begins, and takes some turns: the rules change before it ends.
        self.rig.clock.callLater(6, self.put, rule("read", topics=("secret",)))
        self.rig.clock.advance(6)
        self.rig.run()
        self.assertEqual(len(stream.events()), 0)
        self.rig.advance(1)
        (event,) = stream.events()
        self.assertEqual([row["name"] for row in event["segments"]["rows"]], ["secret"])
        self.assertEqual([sample[0] for sample in event["samples"]], [1, 2])  # none is lost with what was not shown


class SegmentTests(RuledSiteCase):
    def test_unknown(self) -> None:
        """Who has no right on a name is told the same whether such a topic is there or not."""
        reason = "no rule of access gives you a right on a topic of this name"
        for rules in ([rule("read", topics=("orders",))], [rule("create"), rule("read", topics=("orders",))]):
            self.put(*rules)
            for name in ("secret", "no-such-topic"):
                for query in ("", "&from=0"):
                    self.assert_refused(self.ask(f"/events?segment={name}{query}"), reason)
        self.assertEqual(self.refusals, 8)
        self.assertIsNotNone(self.event("/events?segment=orders")["segment"])

    def test_records(self) -> None:
        """With another right than read its figures and groups are shown, and no records."""
        for word in ("write", "admin"):
            before = self.refusals
            self.put(rule(word))
            for query in ("", "&from=0"):
                stream = self.watch(f"/events?segment=secret{query}")
                self.rig.advance(3)
                for event in stream.events():
                    self.assertTrue(event["withheld"])
                    self.assertNotIn("records", event)
                    self.assertEqual(event["segment"]["number"], 2)
                    self.assertEqual(event["segment"]["groups"][0]["group"], "readers of secret")
                stream.leave()
            self.assertEqual(self.refusals, before + 2)  # each page once, not each second

    def test_reload(self) -> None:
        """A page that is open shows records when its peer may read them, and no new ones when it no longer may."""
        self.put(rule("write"))
        stream = self.watch("/events?segment=secret")
        self.assertTrue(stream.events()[0]["withheld"])
        self.put(rule("read"))
        self.rig.advance(1)
        self.assertEqual([each["shown"] for each in self.last(stream)["records"]], ["of secret", "more"])
        self.put(rule("admin"))
        self.rig.publish("secret", b"newer")
        self.rig.advance(1)
        self.assertNotIn("records", self.last(stream))
        self.put(rule("read", topics=("orders",)))
        self.rig.advance(1)
        self.assertIn(b"event: refused\n", stream.take())

    def last(self, stream: Visitor) -> dict[str, Any]:
        return stream.events()[-1]


class ManyTests(RuledSiteCase):
    def show(self, path: str) -> tuple[dict[str, Any], int]:
        """The segments on a page that somebody opens, and how many turns of the reactor it takes to find them."""
        turns = 0
        stream = self.visit()

        def turn() -> None:
            nonlocal turns
            if b"data: " not in stream.transport.value():
                turns += 1
                self.rig.clock.callLater(0, turn)

        stream.channel.dataReceived(request(path))
        turn()
        self.rig.run()
        return stream.events()[0]["segments"], turns

    def test_many(self) -> None:
        """Thousands are judged in many turns, once for all whom the same rules fit, and none is remembered."""
        self.create(*(f"orders-{number:05}" for number in range(3000)))
        self.put(rule("read", topics=("orders-*5",)))
        found, turns = self.show("/events")
        self.assertEqual(found["total"], 300)
        self.assertGreaterEqual(turns, 30)
        self.assertEqual(self.visit().channel.permits._known, {})
        found, turns = self.show("/events?search=55")
        self.assertEqual(found["total"], 30)
        self.assertLess(turns, 10)
