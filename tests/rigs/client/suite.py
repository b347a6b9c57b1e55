"""Asynchronous clients on real sockets: one suite, for asyncio and for Twisted's reactor."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from twisted.trial.unittest import TestCase

from streamd.client import ClientError, ConnectionLost, ProtocolBroken, Refused, Timeout
from streamd.client.asynchronous import FastStreamClient, PravegaClient, SespClient, SmqClient
from tests.rigs.access.authority import Authority, tlsfile
from tests.rigs.client.peers import address, deaf, listener
from tests.rigs.client.rig import Endless
from tests.rigs.daemon import Daemon
from tests.rigs.protocols.sockets import write_certificate

if TYPE_CHECKING:
    Base = TestCase
else:
    Base = object

Operation = Coroutine[Any, Any, Any]


class Suite(Base):
    """What holds under both. They differ in who carries out a coroutine, and how several are carried out at once."""

    options: dict[str, Any] = {}
    cancelled: type[BaseException]

    def carry_out(self, operation: Operation) -> Any:
        """What the test returns."""
        raise NotImplementedError

    def begin(self, operation: Operation) -> Any:
        """Begin it, and do not wait: something to be awaited, or cancelled."""
        raise NotImplementedError

    async def turn(self) -> None:
        """Let what was begun do its first step."""

    def together(self, *operations: Operation) -> Any:
        """All of them at once, to be awaited."""
        raise NotImplementedError

    def tls(self, certificate: str) -> Any:
        """What trusts this certificate."""
        raise NotImplementedError

    def daemon(self, *options: str) -> Daemon:
        daemon = Daemon(os.path.abspath(self.mktemp()), *options)
        self.addCleanup(daemon.close)
        return daemon.start()

    async def raises(self, kind: type[BaseException], operation: Any) -> BaseException:
        """The error that it ends with."""
        try:
            await operation
        except kind as error:
            return error
        raise AssertionError(f"no {kind.__name__}")

    def test_each(self) -> Any:
        """Each client of each protocol on one daemon; what one wrote the others read."""
        daemon = self.daemon()
        messages = [b"%d" % number for number in range(20_000)]

        async def main() -> None:
            async with SespClient(address(daemon, "sesp"), **self.options) as sesp:
                await sesp.create("smq")
                await self.raises(Refused, sesp.create("smq"))
                async with sesp.topic("smq") as topic:
                    await topic.publish(messages)
                    self.assertEqual([each async for each in topic.read()], messages)
                    await topic.seek(7)
                    async for message in topic.read():
                        self.assertEqual((message, topic.offset), (b"7", 8))
                        break
                self.assertEqual((await sesp.info("smq"))["messages"], len(messages))
            async with PravegaClient(address(daemon, "pravega"), **self.options) as pravega:
                reader = pravega.reader("smq", wait=False)
                self.assertEqual([each async for each in reader], messages)
                async with pravega.writer("smq") as writer:
                    await writer.write([b"from pravega"])
                self.assertEqual((writer.acknowledged, await anext(reader)), (20, b"from pravega"))
            async with SmqClient(address(daemon, "smq"), **self.options) as smq:
                found = await smq.pull_many(len(messages) + 2)
                self.assertEqual([each.value.encode() for each in found], [*messages, b"from pravega"])
                self.assertIsNone(await smq.pull())
            async with FastStreamClient(address(daemon, "faststream"), **self.options) as faststream:
                await faststream.create(1)
                await faststream.enqueue(1, messages)
                self.assertEqual(await faststream.take(1), b"".join(messages))

        return self.carry_out(main())

    def test_together(self) -> Any:
        """Many operations at once on one client that nobody has connected yet: each gets its own answer."""
        daemon = self.daemon()

        async def main() -> None:
            client = SespClient(address(daemon, "sesp"), **self.options)
            names = [f"t{number}" for number in range(50)]
            await self.together(*map(client.create, names))
            found = await self.together(*map(client.info, names), client.topics())
            self.assertEqual(found.pop(), names)
            self.assertEqual([each["messages"] for each in found], [0] * len(names))
            topic = client.topic("t7")
            await self.together(*(topic.publish([b"%d" % number] * 100) for number in range(20)))
            self.assertEqual(len([each async for each in topic.read()]), 2000)
            await client.close()
            await client.close()
            self.assertTrue(client.is_closed and topic.is_closed)
            await self.raises(ConnectionLost, client.topics())

        return self.carry_out(main())

    def test_writers_together(self) -> Any:
        """Many writes at once on one writer, whose buffer is small: each event once, those of each write in order."""
        daemon = self.daemon()

        async def main() -> None:
            async with PravegaClient(address(daemon, "pravega"), **self.options) as client:
                await client.create("s")
                runs = [[b"%d %d" % (run, number) for number in range(300)] for run in range(20)]
                async with client.writer("s", unacknowledged_bytes_max=2000) as writer:
                    await self.together(*map(writer.write, runs))
                found = [event async for event in client.reader("s", wait=False)]
            self.assertEqual(len(found), 20 * 300)
            for run in runs:
                beginning = run[0].split()[0]
                self.assertEqual([event for event in found if event.split()[0] == beginning], run)

        return self.carry_out(main())

    def test_large(self) -> Any:
        """Far more than all buffers hold, both ways; requests that are not answered wait for room too."""
        daemon = self.daemon()

        async def main() -> None:
            records = [b"x" * 100_000] * 300
            async with FastStreamClient(address(daemon, "faststream"), **self.options) as client:
                await client.create(1)
                await client.enqueue(1, records)
                self.assertEqual(await client.peek(1), b"".join(records))

        return self.carry_out(main())

    def test_cancelled(self) -> Any:
        """An operation that is cancelled leaves the client as it is."""
        daemon = self.daemon()

        async def main() -> None:
            async with PravegaClient(address(daemon, "pravega"), **self.options) as client:
                await client.create("s")
                waiting = self.begin(anext(client.reader("s")))
                await client.ping()
                waiting.cancel()
                await self.raises(self.cancelled, waiting)
                async with client.writer("s") as writer:
                    await writer.write([b"one"])
                self.assertEqual(await anext(client.reader("s")), b"one")

        return self.carry_out(main())

    def test_cancelled_connect(self) -> Any:
        """Whoever came first and went away takes the connection from nobody; closed meanwhile, it is gone for all."""
        daemon = self.daemon()

        async def main() -> None:
            client = SespClient(address(daemon, "sesp"), **self.options)
            first, second = self.begin(client.topics()), self.begin(client.topics())
            await self.turn()
            first.cancel()
            await self.raises(self.cancelled, first)
            self.assertEqual(await second, [])
            await client.close()
            client = SespClient(address(daemon, "sesp"), **self.options)
            first = self.begin(client.topics())
            await self.turn()
            await client.close()
            await self.raises(ConnectionLost, first)

        return self.carry_out(main())

    def test_error_in_block(self) -> Any:
        """An error in the block comes out of it, and the connection is gone."""
        daemon = self.daemon()
        client = SespClient(address(daemon, "sesp"), **self.options)

        async def fail() -> None:
            async with client:
                raise KeyError

        async def main() -> None:
            await self.raises(KeyError, fail())
            self.assertTrue(client.is_closed)

        return self.carry_out(main())

    def test_unix(self) -> Any:
        """On unix sockets."""
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "sesp.sock")
        self.daemon("--sesp", f"unix:{path}")

        async def main() -> None:
            async with SespClient(f"unix:{path}", **self.options) as client:
                await client.create("t")
                self.assertEqual(await client.topics(), ["t"])
            await self.raises(ConnectionLost, SespClient("unix:/nowhere/at/all", **self.options).connect())

        return self.carry_out(main())

    def test_tls(self) -> Any:
        """Over TLS, more than its buffers hold."""
        certificate = os.path.abspath(self.mktemp())
        write_certificate(certificate)
        daemon = self.daemon("--sesp", f"ssl:0:interface=127.0.0.1:privateKey={certificate}:certKey={certificate}")

        async def main() -> None:
            where = f"localhost:{daemon.port('sesp')}"
            async with SespClient(where, ssl_context=self.tls(certificate), **self.options) as client:
                await client.create("t")
                topic = client.topic("t")
                messages = [b"x" * 10_000] * 500
                await topic.publish(messages)
                self.assertEqual([each async for each in topic.read()], messages)

        return self.carry_out(main())

    def test_tls_address(self) -> Any:
        """Who may get in is in the address; a file that can't be used is named."""
        directory = Path(self.mktemp())
        directory.mkdir()
        authority = Authority(directory.resolve())
        ours, mine = authority.issue("server"), authority.issue("mine")
        daemon = self.daemon("--sesp", tlsfile(ours, authority.file))

        async def main() -> None:
            where = f"tls:127.0.0.1:{daemon.port('sesp')}:ca={authority.file}"
            async with SespClient(f"{where}:cert={mine}", **self.options) as client:
                await client.create("t")
                self.assertEqual(await client.topics(), ["t"])
            stranger = SespClient(where, **self.options)
            await self.raises(ConnectionLost, stranger.topics())
            for file in ("none", authority.file.name):
                client = SespClient(f"{where}:cert={authority.file.with_name(file)}", **self.options)
                self.assertIn(file, str(await self.raises(ClientError, client.connect())))

        return self.carry_out(main())

    def test_nobody(self) -> Any:
        """Where nobody listens there is no connection, for all who asked for it."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            where = f"127.0.0.1:{server.getsockname()[1]}"
        client = SespClient(where, **self.options)

        async def main() -> None:
            first, second = self.begin(client.topics()), self.begin(client.topics())
            for each in (first, second):
                self.assertIn("no connection to", str(await self.raises(ConnectionLost, each)))
            await self.raises(ConnectionLost, client.topics())

        return self.carry_out(main())

    def test_deaf(self) -> Any:
        """Connecting takes no longer than it may."""

        async def main() -> None:
            with deaf() as where:
                await self.raises(Timeout, SespClient(where, connect_seconds_max=0.05, **self.options).connect())

        return self.carry_out(main())

    def test_silent(self) -> Any:
        """Somebody who never answers, or takes nothing, is given up, and few of endless records were taken."""
        endless = Endless()

        async def main() -> None:
            with listener() as where:
                client = FastStreamClient(where, reply_seconds_max=0.05, **self.options)
                await self.raises(Timeout, client.flush())
                await client.close()
            with listener() as where:
                client = FastStreamClient(where, reply_seconds_max=0.05, **self.options)
                await self.raises(Timeout, client.enqueue(1, endless))
                await client.close()
            self.assertLess(endless.taken_bytes, 100 << 20)

        return self.carry_out(main())

    def test_nonsense(self) -> Any:
        """Somebody who speaks something else is not taken for a daemon."""

        async def main() -> None:
            with listener(b"HTTP/1.1 400 Bad Request\r\n\r\n") as where:
                client = SespClient(where, **self.options)
                await self.raises(ProtocolBroken, client.topics())
                await client.close()

        return self.carry_out(main())

    def test_gone(self) -> Any:
        """A daemon that goes away while it is waited for is lost, not waited for for ever."""
        daemon = self.daemon()

        async def main() -> None:
            client = PravegaClient(address(daemon, "pravega"), **self.options)
            await client.create("s")
            waiting = self.begin(anext(client.reader("s")))
            await client.ping()
            killer = threading.Thread(target=daemon.kill)
            killer.start()
            await self.raises(ConnectionLost, waiting)
            killer.join()
            await client.close()

        return self.carry_out(main())
