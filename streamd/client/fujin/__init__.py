"""Fujin, asynchronous, over QUIC on Twisted's reactor: write, write in transactions, subscribe, fetch, acknowledge.

    async with FujinClient("127.0.0.1:4848", reactor=reactor, trust=Trust(certificates=pem)) as client:
        writer = client.writer()
        await writer.write("orders", [b"first", b"second"])
        async with writer.transaction():
            await writer.write("orders", [b"third"])
            await writer.write("invoices", [b"for the third"])
        async with client.reader("orders") as reader:
            async for message in reader:
                print(message.data)
                await reader.acknowledge([message])

Each writer and each reader is a stream of its own on one connection.
"""

from streamd.client.fujin.client import FujinClient, Reader, Writer
from streamd.client.fujin.session import Message

__all__ = ["FujinClient", "Message", "Reader", "Writer"]
