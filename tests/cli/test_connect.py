"""streamctl over TLS, with certificates on both sides: what works, and what it says where it does not."""

from __future__ import annotations

import shutil
from datetime import timedelta

from tests.rigs.access.authority import Authority
from tests.rigs.access.daemon_case import EVERYTHING
from tests.rigs.cli.run import Ended, ctl
from tests.rigs.daemon import Daemon
from tests.rigs.tls import TlsCase


class StreamctlTests(TlsCase):
    def setUp(self) -> None:
        super().setUp()
        self.alice = self.authority.issue("alice")
        self.bob = self.authority.issue("bob")

    def start(self, more: str = "") -> Daemon:
        lists = self.authority.revoke(*([self.bob] if more else []))
        endpoint = f"{self.endpoint()}:crl={lists}"
        rule = f'[[access]]\nwho = "cert:alice"\nallow = {EVERYTHING}\n'
        return self.daemon(f'[sesp]\nendpoint = "{endpoint}"\n[pravega]\nendpoint = "{endpoint}"\n{rule}').start()

    def run_ctl(self, daemon: Daemon, *arguments: str, given: bytes = b"") -> Ended:
        where = ("--server", daemon.addresses("pravega")[0])
        return ctl(*arguments, *where, given=given)

    def test_certificate(self) -> None:
        """With a certificate it does all that the rules let its holder do; the key may be a file of its own."""
        daemon = self.start()
        key, own = self.directory / "alone.key", self.directory / "alone.pem"
        text = self.alice.read_text()
        key.write_text(text[: text.index("-----BEGIN CERT")])
        own.write_text(text[text.index("-----BEGIN CERT") :])
        for shown in (["--cert", str(self.alice)], ["--cert", str(own), "--key", str(key)]):
            options = ["--ca", str(self.authority.file), *shown]
            ended = self.run_ctl(daemon, "publish", "a", "--create", *options, given=b"hello\n")
            self.assertEqual((ended.status, ended.err), (0, ""))
            self.assertEqual(self.run_ctl(daemon, "tail", "a", "-n", "1", *options).text, "hello\n")
            self.assertEqual(self.run_ctl(daemon, "seal", "b", *options).status, 1)
        # All of it may be said in the address.
        port = daemon.addresses("pravega")[0].rpartition(":")[2]
        address = f"tls:127.0.0.1:{port}:ca={self.authority.file}:cert={self.alice}"
        self.assertEqual(ctl("topics", "--names", "--server", address).text, "a\n")
        bob = ["--ca", str(self.authority.file), "--cert", str(self.bob)]
        self.assertIn("there is no such topic", self.run_ctl(daemon, "seal", "a", *bob).err)

    def test_refused(self) -> None:
        """What TLS refuses is told in one line, with what to do."""
        daemon = self.start("bob is revoked")
        (self.directory / "other").mkdir()
        other = Authority(self.directory / "other", "other")
        late = self.authority.issue("late", until=timedelta(minutes=-1))
        for options, status, hint in (
            ([], 69, "Or does it speak TLS there (--ca)?"),
            (["--ca", str(self.authority.file)], 69, "give --cert"),
            (["--ca", str(other.file), "--cert", str(self.alice)], 69, "give that authority as --ca"),
            (["--ca", str(self.authority.file), "--cert", str(self.bob)], 69, "was revoked"),
            (["--ca", str(self.authority.file), "--cert", str(late)], 69, "Your certificate has run out"),
            (["--ca", str(self.authority.file), "--cert", str(other.issue("alice"))], 69, "does not trust who issued"),
            (["--key", str(self.alice)], 2, "give that as --cert"),
            (["--cert", "/nowhere"], 2, "/nowhere: No such file"),
            (["--cert", str(self.authority.file)], 2, "its key in the same file"),
        ):
            ended = self.run_ctl(daemon, "topics", *options)
            self.assertEqual(ended.status, status, ended.err)
            self.assertIn(hint, ended.err)
            self.assertEqual(ended.err.count("\n"), 1)

    def test_server(self) -> None:
        """So is what is wrong with the daemon's certificate, which its own log tells too."""
        shutil.copy(self.authority.issue("server", "late.pem", until=timedelta(minutes=-1)), self.server)
        daemon = self.start()
        daemon.wait_for_line("clients refuse this certificate, which ran out on")
        options = ["--ca", str(self.authority.file), "--cert", str(self.alice)]
        self.assertIn("its certificate has run out", self.run_ctl(daemon, "topics", *options).err.lower())
        where = f"localhost:{daemon.port('pravega')}"
        self.authority.issue("server")
        self.reload(daemon, self.config.read_text().partition("\n")[2])
        self.assertEqual(self.run_ctl(daemon, "topics", *options).status, 0)
        self.assertIn("for another name", ctl("topics", "--server", where, *options).err)

    def test_plain(self) -> None:
        """A port without TLS is told as such."""
        daemon = self.daemon("").start()
        self.assertIn("does not speak TLS there", self.run_ctl(daemon, "seal", "a", "--tls").err)
