"""Limits of rules and of addresses on connections, and what is counted."""

from __future__ import annotations

import json

from twisted.internet.address import IPv4Address

from streamd.connections.load import Load
from streamd.metrics import CONNECTIONS_CUT_OFF, CONNECTIONS_REFUSED, REQUESTS_REFUSED
from streamd.protocols.sesp import SespFactory
from streamd.settings import Limits
from tests.rigs.access.rules import NOBODY, RuledCase, rule

_DENIED = b"-NotAllowed\n"


class RuleLimitTests(RuledCase):
    """Bytes and topics by rule."""

    def test_topic_bytes(self) -> None:
        """A topic takes no more than the rule says, pipelined or not; what is dropped makes room."""
        rig = self.make()
        peer = rig.connect()
        peer.ask(b"#a\n@a\n")
        self.put(rig, rule("read", "write", "admin", topic_bytes_max=100))
        rig.held = True
        for _ in range(5):
            peer.send(b">" + b"x" * 20 + b"\n")
        rig.release()
        # Each takes its bytes and 8 more.
        self.assertEqual(peer.take(), b"+\n" * 3 + _DENIED * 2)
        self.assertEqual(rig.load.refusals["topic_bytes"], 2)
        self.assertEqual(peer.ask(b"%2\n"), b"+\n")
        self.assertEqual(peer.ask(b">more\n"), b"+\n")

    def test_topics(self) -> None:
        """No more topics are made than the rule says; others are free."""
        rig = self.make()
        peer = rig.connect()
        peer.ask(b"#other\n")
        self.put(rig, rule("create", topics=("a*",), topics_max=2), rule("admin", topics=("b*",)))
        self.assertEqual(peer.ask(b"#a1\n#a2\n#a3\n#b1\n"), b"+\n+\n" + _DENIED + b"+\n")
        self.assertEqual(rig.load.refusals["topics"], 1)


class AddressTests(RuledCase):
    """Connections by address."""

    def test_addresses(self) -> None:
        """So many from one address, and as many from another; who leaves makes room."""
        load = Load(Limits(address_connections_max=2, connections_max=5))
        self.assertEqual([load.admit("a") for _ in range(3)], [None, None, "address_connections"])
        self.assertEqual([load.admit("b") for _ in range(3)], [None, None, "address_connections"])
        self.assertEqual([load.admit(None) for _ in range(2)], [None, "connections"])
        self.assertEqual(load.address_connections, 2)
        load.leave("a")
        self.assertIsNone(load.admit("a"))
        for address in ("a", "a", "b", "b", None):
            load.leave(address)
        self.assertEqual((load.connections, len(load._addresses)), (0, 0))

    def test_factory(self) -> None:
        """It is the factory that asks, with the peer's address, and counts; a unix socket has none."""
        rig = self.make(limits=Limits(address_connections_max=1))
        factory = SespFactory(rig.core)
        first = factory.buildProtocol(IPv4Address("TCP", "10.0.0.1", 1))
        self.assertIsNone(factory.buildProtocol(IPv4Address("TCP", "10.0.0.1", 2)))
        self.assertIsNotNone(factory.buildProtocol(IPv4Address("TCP", "10.0.0.2", 1)))
        self.assertIsNotNone(factory.buildProtocol(None))
        factory.left(first)
        self.assertIsNotNone(factory.buildProtocol(IPv4Address("TCP", "10.0.0.1", 3)))
        self.assertEqual(+rig.load.traffic_of("sesp").connections_refused, {"address_connections": 1})

    def test_first(self) -> None:
        """It is counted for its protocol also where nobody was let in before."""
        rig = self.make(limits=Limits(connections_max=1))
        rig.load.admit()
        self.assertIsNone(SespFactory(rig.core).buildProtocol(None))
        self.assertEqual(+rig.load.traffic_of("sesp").connections_refused, {"connections": 1})


class CountedTests(RuledCase):
    """Each refusal is counted by its reason."""

    def test_shown(self) -> None:
        """The administrator sees all counters."""
        rig = self.make(limits=Limits(line_bytes_max=100, frame_seconds_max=5.0))
        rig.connect().ask(b"GET / HTTP/1.0\n")
        rig.connect().ask(b">" + b"x" * 200)
        rig.connect().send(b">never ends")
        rig.advance(10.0)
        rig.connect().ask(b"@nothing\nnonsense\n")
        self.put(rig, NOBODY)
        rig.connect().ask(b"&\n")
        self.put(rig, rule("admin"))
        told = json.loads(rig.connect().ask(b"&\n")[1:])
        reasons = (*CONNECTIONS_REFUSED, *REQUESTS_REFUSED, *CONNECTIONS_CUT_OFF)
        happened = ("http", "line_bytes", "overdue", "not_allowed", "no_such_segment", "invalid")
        self.assertEqual(told["refusals"], dict.fromkeys(reasons, 0) | dict.fromkeys(happened, 1))
        self.assertEqual(told["slowed"], 0)
