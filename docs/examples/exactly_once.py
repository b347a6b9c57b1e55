"""Pravega: each line of the standard input becomes an event, exactly once. Stop the daemon meanwhile, or kill it.

Usage: seq 1000 | python exactly_once.py 127.0.0.1:12345

The writer connects again by itself, asks how much of it is stored, and sends just the rest.
"""

import sys

from streamd.client import PravegaClient, Refused


def main(address: str) -> None:
    """Run it against the daemon at this address."""
    with PravegaClient(address) as client:
        try:
            client.create("lines")
        except Refused:
            pass
        with client.writer("lines") as writer:
            for line in sys.stdin:
                writer.write([line.rstrip("\n").encode()])
                # For speed, leave this out: the end of the block waits for all of them.
                writer.flush()
                print("stored:", line, end="", flush=True)
    # The daemon may be another one by now: this is a new connection.
    with PravegaClient(address) as client:
        events = [event.decode() for event in client.reader("lines", wait=False)]
    print("in the segment:", ", ".join(events))


if __name__ == "__main__":
    main(sys.argv[1])
