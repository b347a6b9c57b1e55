"""SESP: publish some messages to a topic, and read it from the beginning.

Usage: python publish_and_read.py 127.0.0.1:4840
"""

import sys

from streamd.client import Refused, SespClient


def main(address: str) -> None:
    """Run it against the daemon at this address."""
    with SespClient(address) as client:
        try:
            client.create("greetings")
        except Refused as refused:
            # It is there already: what follows is added to it.
            print("the topic is there:", refused.reason)
        topic = client.topic("greetings")
        topic.publish([b"hello", b"world"])
        # Here both are on disk.
        for message in topic.read():
            print(message.decode())
        print("messages in all:", client.info("greetings")["messages"])


if __name__ == "__main__":
    main(sys.argv[1])
