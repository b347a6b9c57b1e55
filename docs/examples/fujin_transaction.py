"""Fujin: messages for two topics that are seen together or not at all.

Usage: python fujin_transaction.py 127.0.0.1:4848 streamd-data/quic-ca.pem
"""

import sys
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from streamd.client.fujin import FujinClient
from streamd.quic.client import Trust


async def main(reactor: object, address: str, certificate: str) -> None:
    """Run it against the daemon at this address, which has this certificate."""
    trust = Trust(Path(certificate).read_bytes())
    async with FujinClient(address, reactor=reactor, trust=trust) as client, client.writer() as writer:
        async with writer.transaction():
            await writer.write("orders", [b"order 1: a bicycle"])
            await writer.write("invoices", [b"invoice 1: for order 1"])
        try:
            async with writer.transaction():
                await writer.write("orders", [b"order 2: a unicorn"])
                raise LookupError("we have no unicorns")
        except LookupError as error:
            print(f"rolled back: {error}")
        await writer.write("orders", [b"order 3: a bell"])
        async with client.reader("orders", fetch=2) as reader:
            for _ in range(2):
                print((await anext(reader)).data.decode())
        async with client.reader("invoices") as reader:
            print((await anext(reader)).data.decode())


if __name__ == "__main__":
    react(lambda reactor: Deferred.fromCoroutine(main(reactor, *sys.argv[1:3])))
