"""aioquic's own asyncio client, in a thread of its own, finds nothing amiss."""

from __future__ import annotations

import asyncio
from typing import Any

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StopSendingReceived, StreamReset
from twisted.internet.threads import deferToThread

from tests.rigs.quic.case import Echo, HalfRecorder, Paused, QuicCase, Recorders


class Client(QuicConnectionProtocol):
    """Remembers the events that asyncio's streams do not tell."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.seen: list[Any] = []

    def quic_event_received(self, event: Any) -> None:
        if isinstance(event, ConnectionTerminated | StopSendingReceived | StreamReset):
            self.seen.append(event)
        super().quic_event_received(event)


class AioquicTests(QuicCase):
    def in_asyncio(self, port: int, talk: Any) -> Any:
        """Run a coroutine function in an event loop in a thread, with a client's connection."""
        trusted = self.trust.certificates

        async def run() -> Any:
            configuration = QuicConfiguration(is_client=True, alpn_protocols=["test"])
            configuration.load_verify_locations(cadata=trusted)
            async with connect(
                "127.0.0.1", port, configuration=configuration, create_protocol=Client, local_port=0
            ) as client:
                return await talk(client)

        return deferToThread(lambda: asyncio.run(run()))

    async def test_conversation(self) -> None:
        """Streams, new keys, another connection id, and more data than a window, one after the other."""
        factory = Recorders(Echo)
        port = await self.listen(factory, retry_handshakes=0)

        async def talk(client: Client) -> list[int]:
            sizes = []
            for size in (5, 3_000_000, 70_000):
                reader, writer = await client.create_stream()
                writer.write(b"x" * size)
                writer.write_eof()
                sizes.append(len(await reader.read()))
                client.request_key_update()
                client.change_connection_id()
                await client.ping()
            return sizes

        self.assertEqual(await self.in_asyncio(port.getHost().port, talk), [5, 3_000_000, 70_000])
        self.assertEqual(len(factory.opened), 1)

    async def test_codes(self) -> None:
        """It sees the codes that streams and connection end with."""
        factory = Recorders(Paused)
        port = await self.listen(factory)

        async def talk(client: Client) -> list[Any]:
            # Without asyncio's writer, which is not made for a stream that ends otherwise than by its own wish.
            client._quic.send_stream_data(client._quic.get_next_available_stream_id(), b"?")
            client.transmit()
            await client.wait_closed()
            return client.seen

        talking = self.in_asyncio(port.getHost().port, talk)
        await self.until(lambda: bool(factory.made))
        (server,) = factory.made
        server.transport.reset(11)
        server.transport.stop(12)
        await self.until(lambda: server.reason is not None)
        factory.opened[0].close(13, "and that is that")
        seen = await talking
        codes = {type(each): each.error_code for each in seen}
        self.assertEqual(codes, {StreamReset: 11, StopSendingReceived: 12, ConnectionTerminated: 13})
        self.assertEqual(seen[-1].reason_phrase, "and that is that")

    async def test_opened_by_the_server(self) -> None:
        """It answers on a stream that the server has opened."""
        factory = Recorders()
        port = await self.listen(factory)

        async def talk(client: Client) -> bytes:
            came: asyncio.Queue[Any] = asyncio.Queue()
            client._stream_handler = lambda reader, writer: came.put_nowait((reader, writer))
            await client.ping()
            reader, writer = await came.get()
            data: bytes = await reader.read()
            writer.write(data.upper())
            writer.write_eof()
            await client.wait_closed()
            return data

        talking = self.in_asyncio(port.getHost().port, talk)
        await self.until(lambda: bool(factory.opened))
        protocol = HalfRecorder()
        stream = factory.opened[0].openStream(protocol)
        stream.write(b"ping")
        stream.loseWriteConnection()
        await self.until(lambda: protocol.reason is not None)
        self.assertEqual(protocol.data, b"PING")
        factory.opened[0].close()
        self.assertEqual(await talking, b"ping")
