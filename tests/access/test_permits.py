"""What rules add up to."""

from __future__ import annotations

from ipaddress import ip_address

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.access.permits import ADMIN, CREATE, READ, VISIBLE, WRITE, Access, Permits
from streamd.access.who import Peer
from streamd.settings import RIGHTS, AccessRule
from tests.rigs.access.rules import rule

NEAR = Peer(address=ip_address("10.1.2.3"))
NAMES = ("orders", "orders.new", "orders.", "invoices", "faststream/1", "")


def permits(*rules: AccessRule, peer: Peer = NEAR) -> Permits:
    return Access(rules).permits(lambda: peer)


class RightsTests(SynchronousTestCase):
    """Rights add up."""

    def test_none(self) -> None:
        """Without rules all is allowed, and who the peer is is not even asked."""
        access = Access()
        found = access.permits(lambda: self.fail("asked"))
        self.assertFalse(access)
        self.assertTrue(found.is_open)
        self.assertEqual({found.rights(name) for name in NAMES}, {READ | WRITE | CREATE | ADMIN})

    def test_others(self) -> None:
        """With rules who fits none may do nothing."""
        found = permits(rule("read", "write", "create", "admin", who="cert:alice"))
        self.assertEqual({found.rights(name) for name in NAMES}, {0})
        self.assertFalse(found.anywhere(READ | WRITE | CREATE | ADMIN))
        self.assertFalse(found.covers(READ, ""))

    def test_each(self) -> None:
        """Each word gives its right; to be an administrator is to create too, and neither to read nor to write."""
        for word, right in (("read", READ), ("write", WRITE), ("create", CREATE), ("admin", ADMIN | CREATE)):
            self.assertEqual(permits(rule(word)).rights("a"), right)

    def test_patterns(self) -> None:
        """A pattern is for the whole name."""
        found = permits(rule("read", topics=("orders.*", "in?oices")))
        self.assertEqual([name for name in NAMES if found.rights(name)], ["orders.new", "orders.", "invoices"])
        # A name may hold a line's end only where the store allows it, but no pattern is fooled by one.
        self.assertEqual(permits(rule("read", topics=("a",))).rights("a\n"), 0)

    @given(st.lists(st.tuples(st.sampled_from(RIGHTS), st.sampled_from(["*", "orders*", "i*", "", "x"])), max_size=5))
    def test_sight(self, several: list[tuple[str, str]]) -> None:
        """Looking through all names finds those that asking for each would, and remembers none."""
        found = permits(*(rule(word, topics=(pattern,)) for word, pattern in several), rule("read", who="cert:x"))
        sight = found.sight()
        seen = [name for name in NAMES if sight is None or sight(name)]
        self.assertEqual(found._known, {})
        self.assertEqual(seen, [name for name in NAMES if found.rights(name) & VISIBLE])

    def test_sight_of_all(self) -> None:
        """Nobody is asked about any name where all may be seen."""
        self.assertIsNone(Access().permits(lambda: NEAR).sight())
        self.assertIsNone(permits(rule("read", topics=("a",)), rule("write", topics=("b", "*"))).sight())
        self.assertIsNotNone(permits(rule("create"), rule("read", topics=("a",))).sight())

    @given(st.lists(st.tuples(st.sampled_from(RIGHTS), st.sampled_from(["*", "orders*", "i*"])), max_size=5))
    def test_union(self, several: list[tuple[str, str]]) -> None:
        """A peer may do what any rule allows: in any order, and however often it is asked."""
        rules = [rule(word, topics=(pattern,)) for word, pattern in several]
        both = permits(*rules, rule("read", who="cert:x")), permits(rule("read", who="cert:x"), *reversed(rules))
        for name in NAMES * 2:
            expected = 0
            for each in rules:
                expected |= permits(each).rights(name)
            self.assertEqual([found.rights(name) for found in both], [expected] * 2)

    def test_many_names(self) -> None:
        """Somebody who asks for ever new names fills no memory, and is answered right."""
        found = permits(rule("read", topics=("a*",)))
        for number in range(25_000):
            self.assertEqual(found.rights(f"a{number}"), READ)
        self.assertLessEqual(len(found._known), 10_000)

    def test_covers(self) -> None:
        """All topics that begin so: certain only where a pattern has nothing but a star behind what they begin with."""
        for pattern, expected in (
            ("*", True),
            ("faststream/*", True),
            ("fast*", True),
            ("faststream/1*", False),
            ("faststream/?", False),
            ("faststream/", False),
            ("[f]*", False),
            ("**", False),
        ):
            self.assertIs(permits(rule("write", topics=(pattern,))).covers(WRITE, "faststream/"), expected, pattern)
        self.assertFalse(permits(rule("read")).covers(WRITE, "faststream/"))
        self.assertFalse(permits(rule("write", topic_bytes_max=1)).covers(WRITE, "faststream/"))


class SharedTests(SynchronousTestCase):
    """Who is remembered together, and until when."""

    def test_shared(self) -> None:
        """Peers that the same rules fit have the same permits, others have not."""
        access = Access([rule("read", who="net:10.0.0.0/8"), rule("write", who="user:7")])
        near = access.permits(lambda: NEAR)
        self.assertIs(access.permits(lambda: Peer(address=ip_address("10.9.9.9"))), near)
        self.assertIsNot(access.permits(lambda: Peer(user=7)), near)

    def test_replaced(self) -> None:
        """When the rules change, every permit that was given out is stale, the open one too."""
        access = Access()
        given_out = [access.permits(lambda: NEAR)]
        access.replace([rule("read")], 0.0)
        given_out.append(access.permits(lambda: NEAR))
        self.assertEqual([each.is_stale for each in given_out], [True, False])
        access.replace([], 0.0)
        self.assertEqual([each.is_stale for each in given_out], [True, True])
        self.assertTrue(access.permits(lambda: NEAR).is_open)


class LimitTests(SynchronousTestCase):
    """Limits of rules."""

    def test_topic_bytes(self) -> None:
        """The largest that a rule for writing allows; none where one of them sets none."""
        self.assertEqual(permits(rule("write")).topic_bytes_max("a"), 0)
        small, large = rule("write", topic_bytes_max=10), rule("write", topic_bytes_max=20)
        self.assertEqual(permits(small, large).topic_bytes_max("a"), 20)
        self.assertEqual(permits(small, rule("read")).topic_bytes_max("a"), 10)
        self.assertEqual(permits(small, rule("write", topics=("a",))).topic_bytes_max("a"), 0)
        self.assertEqual(permits(small, rule("write", topics=("b",))).topic_bytes_max("a"), 10)

    def test_topics(self) -> None:
        """So many topics that fit; others do not count. Where some are deleted there is room again, a little later."""
        names = ["a1", "b1", "b2"]
        found = permits(rule("create", topics=("a*",), topics_max=3))
        self.assertTrue(found.may_make("a2", lambda: names, 0.0))
        self.assertTrue(found.may_make("a3", lambda: names, 0.0))
        names += ["a2", "a3"]
        self.assertFalse(found.may_make("a4", lambda: names, 0.5))
        self.assertFalse(found.may_make("a4", lambda: names, 10.0))
        names.remove("a1")
        self.assertFalse(found.may_make("a4", lambda: names, 10.5))
        self.assertTrue(found.may_make("a4", lambda: names, 11.0))
        self.assertFalse(found.may_make("b3", lambda: names, 20.0))

    def test_topics_of_many(self) -> None:
        """Where there are many topics they are looked at more rarely, so that nobody has them counted all the time."""
        looks = 0

        def names() -> list[str]:
            nonlocal looks
            looks += 1
            return ["a"] * 50_000

        found = permits(rule("create", topics_max=10))
        for second in range(60):
            self.assertFalse(found.may_make("b", names, float(second)))
        self.assertEqual(looks, 60 // 5)

    def test_any_room(self) -> None:
        """One rule with room is enough."""
        found = permits(rule("create", topics_max=1), rule("admin", topics=("a*",)))
        self.assertTrue(all(found.may_make("a", lambda: ["a", "b"], 0.0) for _ in range(3)))
        self.assertFalse(found.may_make("c", lambda: ["a", "b"], 0.0))
