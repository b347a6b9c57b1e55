"""A real daemon with small journal files and retention, and publishers that keep it, and its compactor, busy."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from streamd.store.directory import read_identity
from streamd.store.disk import Disk
from streamd.store.packs.catalog import Catalog
from tests.rigs.daemon import Daemon
from tests.rigs.publishers import Acknowledgements, Publisher

CONFIG = """
data_dir = "{directory}/data"

[store]
journal_file_bytes = 1048576
reserve_bytes = 65536
retention_seconds = 0.2

[sesp]
endpoint = "tcp:0:interface=127.0.0.1"

[[retention]]
pattern = "short"
records_max = 300
"""


class LoadedDaemon:
    """Inside ``with`` it runs; `load` lets everybody publish, to the topics one, many and short."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory).resolve()
        self.directory.mkdir()
        config = self.directory / "streamd.toml"
        config.write_text(CONFIG.format(directory=self.directory))
        self.data = str(self.directory / "data")
        self.daemon = Daemon(str(self.directory), "--config", str(config))
        self.acknowledged = Acknowledgements()
        self.publishers = [
            Publisher(topic, topic, window, seed, self.acknowledged)
            for seed, (topic, window) in enumerate([("one", 1), ("many", 300), ("short", 50)])
        ]

    def __enter__(self) -> Self:
        self.daemon.start()
        with self.daemon.connect() as connection, connection.makefile("rwb") as stream:
            for each in self.publishers:
                stream.write(f"#{each.topic}\n".encode())
                stream.flush()
                assert stream.readline() == b"+\n"
        return self

    def __exit__(self, *_: object) -> None:
        self.daemon.close()

    def load(self) -> None:
        """Let everybody publish, until the daemon is gone."""
        for each in self.publishers:
            each.start(self.daemon)

    def join(self) -> list[str]:
        """Wait for everybody, and tell what went wrong."""
        for each in self.publishers:
            each.join()
        return [error for each in self.publishers for error in each.errors]

    def folded(self) -> int:
        """The last journal file that is in packs."""
        catalog = Catalog(Disk(), self.data, read_identity(Disk(), self.data), writable=False)
        try:
            return catalog.covered[1]
        finally:
            catalog.close()

    def wait_for_folds(self, more: int) -> None:
        """Until so many more journal files are in packs."""
        wanted = self.folded() + more
        while self.folded() < wanted:
            self.acknowledged.wait(50)
