"""A test case with a daemon and an archive, which is looked at from outside: with Arrow, file by file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

import streamd.spark
from streamd.spark.archive_files import Files
from streamd.spark.archive_manifest import Manifest, Manifests
from streamd.spark.archive_run import Archived
from tests.sesp_client import Sesp
from tests.spark.session import SparkCase, spark

Rows = list[tuple[int, bytes]]


class ArchiveCase(SparkCase):
    """A daemon, and an archive beside it."""

    def setUp(self) -> None:
        super().setUp()
        self.uri = str(self.directory / "an archive")

    def server(self) -> str:
        """Where the daemon has its tools served."""
        return f"127.0.0.1:{self.daemon.port('pravega')}"

    def archive(self, *topics: str, **settings: Any) -> list[Archived]:
        """Archive, as far as it goes; records come from the files, and the daemon is told."""
        where = {"path": str(self.daemon.data_dir), "server": self.server()}
        return streamd.spark.archive(spark(), topics, self.uri, **{**where, **settings})

    def manifest(self, topic: str) -> Manifest:
        """The version that counts."""
        found = Manifests(Files(self.uri), topic).last()
        assert found is not None
        return found

    def in_place(self) -> dict[str, Rows]:
        """What somebody finds who knows nothing of streamd, by topic."""
        found: dict[str, Rows] = {}
        for path in sorted(Path(self.uri).glob("topic=*/date=*/*.parquet")):
            topic = unquote(path.parent.parent.name.removeprefix("topic="))
            found.setdefault(topic, []).extend(_rows([path]))
        return found

    def archived(self, topic: str) -> Rows:
        """What the manifest says is archived, young files too."""
        return _rows(Path(self.uri, file.path) for file in self.manifest(topic).files)

    def position(self, topic: str) -> int | None:
        """Where the group is, as the admin sees it."""
        with Sesp(self.daemon) as sesp:
            groups = json.loads(sesp.ask(f"?{topic}"))["groups"]
        return None if "archive" not in groups else int(groups["archive"]["position"])

    def numbers(self, topic: str, first: int, end: int) -> None:
        """Publish these numbers."""
        self.publish(topic, *map(str, range(first, end)))


def numbered(first: int, end: int) -> Rows:
    """What a topic holds that has its offsets as messages."""
    return [(number, b"%d" % number) for number in range(first, end)]


def _rows(paths: Iterable[Path]) -> Rows:
    found: Rows = []
    for path in paths:
        columns = pq.read_table(path, columns=["offset", "value"], partitioning=None).to_pydict()
        found += zip(columns["offset"], columns["value"], strict=True)
    return found
