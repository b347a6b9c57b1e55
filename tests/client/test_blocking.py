"""Blocking clients on real sockets: every protocol, TCP, TLS and unix, and no Twisted."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.trial.unittest import SynchronousTestCase

from streamd.client import (
    ClientError,
    ConnectionLost,
    FastStreamClient,
    PravegaClient,
    Refused,
    SespClient,
    SmqClient,
)
from tests.rigs.access.authority import Authority, tlsfile
from tests.rigs.client.peers import address
from tests.rigs.daemon import CHECKOUT, Daemon
from tests.rigs.protocols.sockets import write_certificate

# Everything that a client does, in a process that has nothing but the client.
USE = """
import json, sys
from streamd.client import FastStreamClient, PravegaClient, SespClient, SmqClient

sesp, smq, faststream, pravega = sys.argv[1:]
with SespClient(sesp) as client:
    client.create("t")
    topic = client.topic("t")
    topic.publish([b"one"])
    found = [message.decode() for message in topic.read()]
with SmqClient(smq) as client:
    client.push(["two"])
    found.append(client.pull().value)
with FastStreamClient(faststream) as client:
    client.create(1)
    client.enqueue(1, [b"three"])
    found.append(client.take(1).decode())
with PravegaClient(pravega) as client:
    client.create("s")
    with client.writer("s") as writer:
        writer.write([b"four"])
    found.append(next(client.reader("s")).decode())
print(json.dumps([found, sorted(name for name in sys.modules if name.split(".")[0] in ("twisted", "zope", "txaio"))]))
print(json.dumps([name for name in sys.modules if name.startswith(("streamd.store", "streamd.protocols"))]))
"""


class DaemonCase(SynchronousTestCase):
    def daemon(self, *options: str) -> Daemon:
        daemon = Daemon(os.path.abspath(self.mktemp()), *options)
        self.addCleanup(daemon.close)
        return daemon.start()


class ClientTests(DaemonCase):
    def test_each(self) -> None:
        """Each client of each protocol on one daemon; what one wrote the others read."""
        daemon = self.daemon()
        messages = [b"%d" % number for number in range(20_000)]
        with SespClient(address(daemon, "sesp")) as sesp:
            sesp.create("smq")
            with sesp.topic("smq") as topic:
                topic.publish(messages)
                self.assertEqual((topic.name, list(topic.read()), topic.offset), ("smq", messages, len(messages)))
                topic.seek(7)
                for message in topic.read():
                    self.assertEqual(message, b"7")
                    break
                self.assertEqual((topic.offset, next(topic.read())), (8, b"8"))
        with PravegaClient(address(daemon, "pravega")) as pravega:
            reader = pravega.reader("smq", wait=False)
            self.assertEqual(list(reader), messages)
            with pravega.writer("smq") as writer:
                writer.write([b"from pravega"])
            self.assertEqual((writer.acknowledged, next(reader)), (20, b"from pravega"))
            pravega.ping()
        with SmqClient(address(daemon, "smq")) as smq:
            found = smq.pull_many(len(messages) + 2)
            self.assertEqual([each.value.encode() for each in found], [*messages, b"from pravega"])
            self.assertIsNone(smq.pull())
        with FastStreamClient(address(daemon, "faststream")) as faststream:
            faststream.create(1)
            faststream.enqueue(1, messages)
        # Who left the block had it on disk.
        daemon.kill()
        daemon.start()
        with FastStreamClient(address(daemon, "faststream")) as faststream:
            self.assertEqual(faststream.take(1), b"".join(messages))

    def test_large(self) -> None:
        """Far more than all buffers hold; and empty messages, each answered by as many bytes as it has."""
        daemon = self.daemon()
        with SespClient(address(daemon, "sesp")) as client:
            client.create("t")
            topic = client.topic("t")
            for messages in ([b"x" * 100_000] * 200, [b""] * 500_000):
                begin = topic.offset
                topic.publish(messages)
                self.assertEqual(list(topic.read()), messages)
                self.assertEqual(topic.offset - begin, len(messages))

    def test_closed(self) -> None:
        """A client that is closed says so, and closing it again does nothing. Its topics are closed with it."""
        daemon = self.daemon()
        client = SespClient(address(daemon, "sesp"))
        client.create("t")
        topic = client.topic("t")
        topic.publish([b"x"])
        client.close()
        client.close()
        self.assertTrue(client.is_closed and topic.is_closed)
        self.assertRaises(ConnectionLost, client.topics)
        self.assertRaises(ConnectionLost, topic.publish, [b"x"])

    def test_error_in_block(self) -> None:
        """An error in the block comes out of it, and the connection is gone."""
        daemon = self.daemon()
        client = SespClient(address(daemon, "sesp"))
        client.create("t")
        topic = client.topic("t").connect()

        def fail() -> None:
            with client:
                raise KeyError

        self.assertRaises(KeyError, fail)
        self.assertTrue(client.is_closed and topic.is_closed)

    def test_refused(self) -> None:
        """What the daemon refuses leaves the client as it is."""
        daemon = self.daemon()
        with SespClient(address(daemon, "sesp")) as client:
            client.create("t")
            self.assertRaises(Refused, client.create, "t")
            self.assertRaises(Refused, client.topic("u").connect)
            self.assertEqual(client.topics(), ["t"])
        with PravegaClient(address(daemon, "pravega")) as pravega:
            writer = pravega.writer("s")
            self.assertRaises(Refused, writer.write, [b"x"])
            pravega.create("s")
            writer.write([b"x"])
            writer.close()
            self.assertRaises(ConnectionLost, writer.write, [b"x"])
            self.assertEqual(next(pravega.reader("s")), b"x")

    def test_unix(self) -> None:
        """On unix sockets."""
        with TemporaryDirectory() as directory:
            path = os.path.join(directory, "sesp.sock")
            self.daemon("--sesp", f"unix:{path}")
            with SespClient(f"unix:{path}") as client:
                client.create("t")
                self.assertEqual(client.topics(), ["t"])

    def test_tls(self) -> None:
        """Over TLS, more than its buffers hold; a certificate that nobody vouches for is refused."""
        certificate = os.path.abspath(self.mktemp())
        write_certificate(certificate)
        daemon = self.daemon("--sesp", f"ssl:0:interface=127.0.0.1:privateKey={certificate}:certKey={certificate}")
        where = f"localhost:{daemon.port('sesp')}"
        context = ssl.create_default_context(cafile=certificate)
        with SespClient(where, ssl_context=context) as client:
            client.create("t")
            topic = client.topic("t")
            messages = [b"x" * 10_000] * 500
            topic.publish(messages)
            self.assertEqual(list(topic.read()), messages)
        stranger = SespClient(where, ssl_context=ssl.create_default_context())
        self.assertRaises(ConnectionLost, stranger.connect)

    def test_tls_address(self) -> None:
        """Who may get in is in the address; a file that can't be used is named, and nothing is tried again."""
        directory = Path(self.mktemp())
        directory.mkdir()
        authority = Authority(directory.resolve())
        ours, mine = authority.issue("server"), authority.issue("mine")
        daemon = self.daemon("--sesp", tlsfile(ours, authority.file))
        where = f"tls:127.0.0.1:{daemon.port('sesp')}:ca={authority.file}"
        with SespClient(f"{where}:cert={mine}") as client:
            client.create("t")
            self.assertEqual(client.topics(), ["t"])
        with self.assertRaises(ConnectionLost), SespClient(where) as client:
            client.topics()
        for files, said in (
            (f":cert={directory}/none", "none: No such file"),
            (f":cert={authority.file}", "expected a certificate in it, and its key in the same file"),
            (f":cert={mine}:key={authority.file}", f"and its key in {authority.file}"),
        ):
            self.assertIn(said, str(self.assertRaises(ClientError, SespClient(where + files).connect)))
        broken = directory / "broken"
        broken.write_text("nothing")
        address = f"tls:127.0.0.1:{daemon.port('sesp')}:ca={broken}"
        error = self.assertRaises(ClientError, SespClient(address).connect)
        self.assertIn("expected certificates of authorities in it", str(error))

    def test_no_twisted(self) -> None:
        """Importing and using every blocking client brings in neither Twisted nor the store."""
        daemon = self.daemon()
        services = [address(daemon, name) for name in ("sesp", "smq", "faststream", "pravega")]
        ended = subprocess.run(
            [sys.executable, "-c", USE, *services],
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        used, ours = map(json.loads, ended.stdout.splitlines())
        self.assertEqual(used, [["one", "two", "three", "four"], []])
        self.assertEqual(ours, [])
