"""Simple Message Queue: put work into a queue, and let two workers share it. Each job goes to one of them.

Usage: python work_queue.py 127.0.0.1:4841
"""

import sys
from threading import Thread

from streamd.client import SmqClient


def work(address: str, done: list[int]) -> None:
    """Square numbers until the queue is empty. A client is for one thread: each worker has its own."""
    with SmqClient(address) as queue:
        # One at a time: who falls over loses one job, not a hundred.
        while (job := queue.pull()) is not None:
            done.append(job.value**2)


def main(address: str) -> None:
    """Run it against the daemon at this address."""
    with SmqClient(address) as queue:
        queue.push(range(1, 101))
    done: list[int] = []
    workers = [Thread(target=work, args=(address, done)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print("jobs done:", len(done))
    print("sum of squares:", sum(done))


if __name__ == "__main__":
    main(sys.argv[1])
