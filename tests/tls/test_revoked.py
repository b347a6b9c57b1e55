"""Lists of revoked certificates, with real handshakes."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path

from streamd.tls.endpoint import parse
from tests.rigs.access.authority import Authority
from tests.rigs.access.daemon_case import EVERYTHING
from tests.rigs.daemon import Daemon
from tests.rigs.tls import TlsCase

ENDED = timedelta(minutes=-1)


class RevokedCase(TlsCase):
    """A daemon with a list, alice who may do everything, and bob who may too."""

    def setUp(self) -> None:
        super().setUp()
        self.alice, self.bob = self.authority.issue("alice"), self.authority.issue("bob")
        self.lists = self.authority.revoke()

    @property
    def text(self) -> str:
        rules = "".join(f'[[access]]\nwho = "cert:{name}"\nallow = {EVERYTHING}\n' for name in ("alice", "bob"))
        return f'[sesp]\nendpoint = "{self.endpoint()}:crl={self.lists}"\n{rules}'

    def assert_welcome(self, daemon: Daemon, context: ssl.SSLContext) -> None:
        connection = self.connect(daemon, context=context)
        self.assertEqual(self.ask(connection, "$0", "?"), ["+", "+[]"])


class HandshakeTests(RevokedCase):
    """Who gets in."""

    def test_revoked(self) -> None:
        """Who is on the list does not get in, others do, with either version of TLS; it is logged and counted."""
        self.authority.revoke(self.bob)
        daemon = self.daemon(self.text).start()
        alice, bob = map(self.authority.context, (self.alice, self.bob))
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for context in (alice, bob):
                context.minimum_version = context.maximum_version = version
            self.assert_kept_out(daemon, bob, "the certificate of CN=bob", "was revoked")
            self.assert_welcome(daemon, alice)
        told = self.ask(self.connect(daemon, context=alice), "&")[0]
        self.assertIn('"tls": 2', told)
        self.assertEqual(daemon.terminate(), 0, daemon.output)
        self.assertNotIn("Traceback", daemon.output)

    def test_reload(self) -> None:
        """A list that changes counts from the reload on, for who comes then."""
        daemon = self.daemon(self.text).start()
        alice, bob = map(self.authority.context, (self.alice, self.bob))
        before = self.connect(daemon, context=bob)
        self.assertEqual(self.ask(before, "$0"), ["+"])
        self.authority.revoke(self.bob)
        self.assert_welcome(daemon, bob)
        self.reload(daemon, self.text)
        self.assert_kept_out(daemon, bob, "was revoked")
        self.assert_welcome(daemon, alice)
        self.assertEqual(self.ask(before, "$0"), ["+"])
        self.authority.revoke(self.alice)
        self.reload(daemon, self.text)
        self.assert_welcome(daemon, bob)
        self.assert_kept_out(daemon, alice, "was revoked")

    def test_ended(self) -> None:
        """A list that has run out keeps everybody out, and says so, until there is another one."""
        self.authority.revoke(until=ENDED)
        daemon = self.daemon(self.text).start()
        daemon.wait_for_line("nobody it vouches for gets in until the file has a newer one")
        alice = self.authority.context(self.alice)
        self.assert_kept_out(daemon, alice, "the list of its authority has run out")
        self.authority.revoke()
        self.reload(daemon, self.text)
        self.assert_welcome(daemon, alice)

    def test_several(self) -> None:
        """Lists of several authorities are in one file, whatever else is; each counts for its own."""
        (self.directory / "second").mkdir()
        second = Authority(self.directory / "second", "second")
        carol, dave = second.issue("carol"), second.issue("dave")
        trusted = self.directory / "trusted.pem"
        trusted.write_bytes(self.authority.file.read_bytes() + second.file.read_bytes())
        self.authority.revoke(self.bob)
        self.lists = self.directory / "all.crl"
        own = self.authority.file.with_suffix(".crl").read_bytes()
        self.lists.write_bytes(b"the first\n" + own + b"the second\n" + second.revoke(dave).read_bytes())
        daemon = self.daemon(self.text.replace(f"clientCA={self.authority.file}", f"clientCA={trusted}")).start()
        for path in (self.bob, dave):
            self.assert_kept_out(daemon, self.authority.context(path), "was revoked")
        for path in (self.alice, carol):
            self.assertEqual(self.ask(self.connect(daemon, context=self.authority.context(path)), "$0"), ["+"])

    def test_wrong_reload(self) -> None:
        """A file that is no list changes nothing: the one that was read counts on."""
        self.authority.revoke(self.bob)
        daemon = self.daemon(self.text).start()
        bob = self.authority.context(self.bob)
        self.lists.write_text("nonsense")
        said = self.reload(daemon, self.text, "nothing is changed")
        self.assertIn(f"{self.lists}: no list of revoked certificates is in it", said)
        self.assert_kept_out(daemon, bob, "was revoked")
        self.lists.unlink()
        said = self.reload(daemon, self.text, "nothing is changed")
        self.assertIn(f"{self.lists}: No such file", said)


class FileTests(RevokedCase):
    """What is no list is refused at the start."""

    def wrong(self, lists: Path) -> str:
        found = self.assertRaises(
            ValueError, parse, None, "1", privateKey=str(self.server), clientCA=str(self.authority.file), crl=str(lists)
        )
        self.assertTrue(str(found).startswith(f"{lists}: "), found)
        return str(found)

    def test_wrong(self) -> None:
        """What is wrong is said, with the file."""
        self.assertIn("No such file", self.wrong(self.directory / "none"))
        self.assertIn("no list of revoked certificates is in it", self.wrong(self.server))
        broken = self.directory / "broken.crl"
        broken.write_bytes(self.lists.read_bytes().replace(b"M", b"N", 1))
        self.wrong(broken)
        (self.directory / "other").mkdir()
        other = Authority(self.directory / "other", "other")
        self.assertIn("there is no list of CN=authority", self.wrong(other.revoke()))
        namesake = Authority(self.directory / "other")
        self.assertIn("the list of CN=authority is not signed by it", self.wrong(namesake.revoke()))

    def test_start(self) -> None:
        """The daemon does not start with it, and says why in one line."""
        self.lists.write_text("nonsense")
        daemon = self.daemon(self.text)
        daemon.spawn()
        self.assertEqual(daemon.wait(), 1, daemon.output)
        self.assertIn(f"{self.lists}: no list of revoked certificates is in it", daemon.output)
