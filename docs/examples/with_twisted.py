"""Twisted: publish to several topics at once, and read them, on the reactor.

Usage: python with_twisted.py 127.0.0.1:4840
"""

import sys

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import react

from streamd.client import Refused
from streamd.client.asynchronous import SespClient


async def fill(client: SespClient, name: str) -> int:
    """Make a topic, publish to it, and count what is in it."""
    try:
        await client.create(name)
    except Refused as refused:
        print(f"{name} is there: {refused.reason}")
    topic = client.topic(name)
    await topic.publish([b"%s %d" % (name.encode(), number) for number in range(1000)])
    return len([message async for message in topic.read()])


async def main(reactor: object, address: str) -> None:
    """Run it against the daemon at this address."""
    async with SespClient(address, reactor=reactor) as client:
        names = ["north", "east", "south", "west"]
        counts = await gatherResults([Deferred.fromCoroutine(fill(client, name)) for name in names])
        for name, count in zip(names, counts, strict=True):
            print(f"{name}: {count} messages")


if __name__ == "__main__":
    react(lambda reactor: Deferred.fromCoroutine(main(reactor, sys.argv[1])))
