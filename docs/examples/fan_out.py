"""FastStreamDB: a mailbox for everybody, and news that is written once for many.

Usage: python fan_out.py 127.0.0.1:1273
"""

import sys

from streamd.client import FastStreamClient

ALICE, BOB, CAROL = 1, 2, 3


def main(address: str) -> None:
    """Run it against the daemon at this address."""
    with FastStreamClient(address) as client:
        for mailbox in (ALICE, BOB, CAROL):
            client.create(mailbox)
        client.enqueue(ALICE, [b"for alice alone\n"])
        client.enqueue_many([ALICE, BOB], b"for the two of you\n")
        client.enqueue_all_except([CAROL], b"a surprise for carol\n")
        client.enqueue_all(b"dinner is ready\n")
        # None of these is answered. This is: when it is, all of them are on disk.
        client.flush()
        for name, mailbox in (("alice", ALICE), ("bob", BOB), ("carol", CAROL)):
            for line in client.take(mailbox).decode().splitlines():
                print(f"{name}: {line}")


if __name__ == "__main__":
    main(sys.argv[1])
