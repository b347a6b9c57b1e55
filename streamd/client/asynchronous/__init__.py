"""Clients that are awaited, one for each protocol, with the names and methods of `streamd.client`.

Under asyncio they use the loop that runs. On Twisted's reactor they are given it:

    async with SespClient("127.0.0.1:4840", reactor=reactor) as client:
        await client.create("orders")
        topic = client.topic("orders")
        await topic.publish([b"first", b"second"])
        async for message in topic.read():
            print(message)
"""

from streamd.client.asynchronous.faststream import FastStreamClient
from streamd.client.asynchronous.pravega import PravegaClient, Reader, Writer
from streamd.client.asynchronous.sesp import SespClient, Topic
from streamd.client.asynchronous.smq import SmqClient

__all__ = ["FastStreamClient", "PravegaClient", "Reader", "SespClient", "SmqClient", "Topic", "Writer"]
