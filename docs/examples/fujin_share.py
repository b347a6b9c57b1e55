"""Fujin: two readers of a group share the messages of a topic, and what one leaves undone the other gets.

Usage: python fujin_share.py 127.0.0.1:4848 streamd-data/quic-ca.pem

The reader `jobs` acknowledges where the daemon's streamd.toml says so:

    [fujin.readers.jobs]
    auto_commit = false
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
    async with FujinClient(address, reactor=reactor, trust=trust) as client:
        async with client.writer() as writer:
            await writer.write("jobs", [b"job %d" % number for number in range(6)])
        async with client.reader("jobs", fetch=4) as careless:
            for _ in range(4):
                message = await anext(careless)
                if message.data.endswith((b"0", b"2")):
                    print(f"the first one does {message.data.decode()}")
                    await careless.acknowledge([message])
        async with client.reader("jobs", fetch=4) as careful:
            for _ in range(4):
                message = await anext(careful)
                print(f"the second one does {message.data.decode()}")
                await careful.acknowledge([message])


if __name__ == "__main__":
    react(lambda reactor: Deferred.fromCoroutine(main(reactor, *sys.argv[1:3])))
