"""A program that writes with Pravega's public client, for tests that kill the daemon meanwhile.

A process of its own: the client holds Python's lock while it waits for the daemon. With WHAT, PORT and COUNT it prints
``begun`` when the first part is stored, and ends when all is.
"""

from __future__ import annotations

import random
import sys
from typing import Any

PIECE_BYTES = 1024


def piece(number: int) -> bytes:
    """One piece of a byte stream: the same each time."""
    return random.Random(number).randbytes(PIECE_BYTES)


def events(manager: Any, count: int) -> None:
    """Events for ten keys, a thousand in flight."""
    writer = manager.create_writer("scope", "events", 1000)
    for number in range(count):
        writer.write_event(f"{number % 10}:{number}", routing_key=str(number % 10))
        if number == 1000:
            print("begun", flush=True)
    writer.flush()


def pieces(manager: Any, count: int) -> None:
    """Pieces of a byte stream, each on disk before the next."""
    stream = manager.create_byte_stream("scope", "bytes")
    for number in range(count):
        stream.write(piece(number))
        stream.flush()
        if number == 5:
            print("begun", flush=True)


def transactions(manager: Any, count: int) -> None:
    """Transactions of ten events each, all but each third committed.

    The others are aborted at the end. The client panics where a transaction is aborted before it has set up its
    writers, which it does in the background and tells nobody of.
    """
    writer = manager.create_transaction_writer("scope", "events", 1)
    to_abort = []
    for number in range(count):
        transaction = writer.begin_txn()
        for key in range(10):
            transaction.write_event(f"{key}:{number}", routing_key=str(key))
        if number % 3:
            transaction.commit()
        else:
            to_abort.append(transaction)
        if number == 2:
            print("begun", flush=True)
    for transaction in to_abort:
        transaction.abort()


if __name__ == "__main__":
    import pravega_client

    _, what, port, count = sys.argv
    {"events": events, "pieces": pieces, "transactions": transactions}[what](
        pravega_client.StreamManager(f"tcp://127.0.0.1:{port}"), int(count)
    )
