"""Who a peer is, and whom a rule means."""

from __future__ import annotations

from ipaddress import ip_address

from twisted.trial.unittest import SynchronousTestCase

from streamd.access.who import Peer, check_rule, parse_who, plain_address
from streamd.interfaces import ConfigError
from streamd.settings import AccessRule

ALICE = Peer(names=frozenset({"alice", "alice.example.org"}))
ROOT = Peer(user=0)
NEAR = Peer(address=ip_address("10.1.2.3"))
FAR = Peer(address=ip_address("2001:db8::1"))
EVERY = (ALICE, ROOT, NEAR, FAR)


class WhoTests(SynchronousTestCase):
    """The value of ``who``."""

    def fit(self, text: str) -> list[Peer]:
        return [each for each in EVERY if parse_who(text).fits(each)]

    def test_fits(self) -> None:
        """Each kind means those it names, and nobody else: who lacks that kind of name is not meant."""
        self.assertEqual(self.fit("anyone"), list(EVERY))
        self.assertEqual(self.fit("cert:alice"), [ALICE])
        self.assertEqual(self.fit("cert:alice.example.org"), [ALICE])
        self.assertEqual(self.fit("cert:Alice"), [])
        self.assertEqual(self.fit("user:0"), [ROOT])
        self.assertEqual(self.fit("user:root"), [ROOT])
        self.assertEqual(self.fit("net:10.0.0.0/8"), [NEAR])
        self.assertEqual(self.fit("net:10.1.2.3"), [NEAR])
        self.assertEqual(self.fit("net:0.0.0.0/0"), [NEAR])
        self.assertEqual(self.fit("net:2001:db8::/32"), [FAR])

    def test_called(self) -> None:
        """What a peer is told that it is called means it, and nobody else."""
        for peer in EVERY:
            for each in peer.called():
                self.assertEqual(self.fit(each), [peer])
        self.assertEqual(ALICE.called(), ["cert:alice", "cert:alice.example.org"])
        self.assertEqual(Peer().called(), [])

    def test_wrong(self) -> None:
        """What can mean nobody is refused, with the reason."""
        for text, reason in (
            ("", 'who: expected "cert:NAME"'),
            ("alice", 'who: expected "cert:NAME"'),
            ("cert:", 'who: expected "cert:NAME"'),
            ("group:wheel", 'who: there is no "group:"'),
            ("user:nobody-has-this-name", "who: there is no user nobody-has-this-name"),
            ("net:10.0.0.1/8", "who: 10.0.0.1/8 has host bits set"),
            ("net:example.org", "who: 'example.org' does not appear to be"),
        ):
            error = self.assertRaises(ConfigError, parse_who, text)
            self.assertTrue(str(error).startswith(reason), str(error))

    def test_rule(self) -> None:
        """Neither whom a rule means nor what it allows has a default."""
        check_rule(AccessRule(who="anyone", allow=("read",)))
        self.assertRaises(ConfigError, check_rule, AccessRule(allow=("read",)))
        self.assertRaises(ConfigError, check_rule, AccessRule(who="anyone"))

    def test_plain_address(self) -> None:
        """An address is the same with a zone, and inside of IPv6."""
        self.assertEqual(plain_address("::ffff:10.0.0.1"), ip_address("10.0.0.1"))
        self.assertEqual(plain_address("fe80::1%eth0"), ip_address("fe80::1"))
        self.assertRaises(ValueError, plain_address, "localhost")
