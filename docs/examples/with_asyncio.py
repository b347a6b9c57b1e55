"""asyncio: one task writes events, another one reads them as they come.

Usage: python with_asyncio.py 127.0.0.1:12345
"""

import asyncio
import sys

from streamd.client import Refused
from streamd.client.asynchronous import PravegaClient


async def write(client: PravegaClient) -> None:
    """Write ten events."""
    async with client.writer("measurements") as writer:
        for number in range(10):
            await writer.write([b"%d" % number])


async def read(client: PravegaClient) -> None:
    """Read ten events, and wait for those that are not there yet."""
    total = count = 0
    async for event in client.reader("measurements"):
        total += int(event)
        count += 1
        if count == 10:
            break
    print("events:", count, "sum:", total)


async def main(address: str) -> None:
    """Run it against the daemon at this address."""
    async with PravegaClient(address) as client:
        try:
            await client.create("measurements")
        except Refused as refused:
            print("the segment is there:", refused.reason)
        await asyncio.gather(read(client), write(client))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
