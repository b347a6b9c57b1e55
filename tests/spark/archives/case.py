"""A test case with a daemon and an archive, which is looked at from outside: with Arrow, file by file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase as fnmatch
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

import streamd.spark
from streamd.spark.archives.location import files_of
from streamd.spark.archives.manifest import Manifest, Manifests
from streamd.spark.archives.run import Archived
from tests.sesp_client import Sesp
from tests.spark.session import SparkCase, spark

Rows = list[tuple[int, bytes]]


class Killed(BaseException):
    """Stands for the end of the process."""


class ArchiveCase(SparkCase):
    """A daemon, and an archive beside it."""

    system: FileSystem = LocalFileSystem()
    """Where the archive is looked at, with `root` as its directory there."""

    def setUp(self) -> None:
        super().setUp()
        self.uri = self.root = str(self.directory / "an archive")

    def server(self) -> str:
        """Where the daemon has its tools served."""
        return f"127.0.0.1:{self.daemon.port('pravega')}"

    def archive(self, *topics: str, **settings: Any) -> list[Archived]:
        """Archive, as far as it goes; records come from the files, and the daemon is told."""
        where = {"path": str(self.daemon.data_dir), "server": self.server()}
        return streamd.spark.archive(spark(), topics, self.uri, **{**where, **settings})

    def manifest(self, topic: str) -> Manifest:
        """The version that counts."""
        found = Manifests(files_of(spark(), self.uri), topic).last()
        assert found is not None
        return found

    def in_place(self) -> dict[str, Rows]:
        """What somebody finds who knows nothing of streamd, by topic."""
        found: dict[str, Rows] = {}
        for path in self.paths("topic=*/date=*/[!.]*.parquet"):
            topic = unquote(path.partition("/")[0].removeprefix("topic="))
            found.setdefault(topic, []).extend(self._rows(path))
        return found

    def archived(self, topic: str) -> Rows:
        """What the manifest says is archived, young files too."""
        return [row for file in self.manifest(topic).files for row in self._rows(file.path)]

    def paths(self, pattern: str) -> list[str]:
        """The files below the archive whose paths fit, sorted."""
        found = self.system.get_file_info(FileSelector(self.root, recursive=True, allow_not_found=True))
        names = [each.path.removeprefix(f"{self.root}/") for each in found if each.type == FileType.File]
        return sorted(name for name in names if fnmatch(name, pattern))

    def _rows(self, path: str) -> Rows:
        wanted = {"columns": ["offset", "value"], "filesystem": self.system, "partitioning": None}
        columns = pq.read_table(f"{self.root}/{path}", **wanted).to_pydict()
        return list(zip(columns["offset"], columns["value"], strict=True))

    def position(self, topic: str) -> int | None:
        """Where the group is, as the admin sees it."""
        with Sesp(self.daemon) as sesp:
            groups = json.loads(sesp.ask(f"?{topic}"))["groups"]
        return None if "archive" not in groups else int(groups["archive"]["position"])

    def cut_off(self, at: int, steps: Iterable[tuple[Any, str]], run: Callable[[], object]) -> bool:
        """A run that ends before or after one of these steps, the `at`-th of such moments; whether it came to that."""
        left = at

        def moment() -> None:
            nonlocal left
            if not left:
                raise Killed
            left -= 1

        def cut(kind: Any, name: str) -> Any:
            real: Callable[..., Any] = getattr(kind, name)

            def instead(*args: Any, **more: Any) -> Any:
                moment()
                result = real(*args, **more)
                moment()
                return result

            return self.patch(kind, name, instead)

        cuts = [cut(*step) for step in steps]
        try:
            run()
        except Killed:
            return True
        finally:
            for each in cuts:
                each.restore()
        return False

    def numbers(self, topic: str, first: int, end: int) -> None:
        """Publish these numbers."""
        self.publish(topic, *map(str, range(first, end)))


def numbered(first: int, end: int) -> Rows:
    """What a topic holds that has its offsets as messages."""
    return [(number, b"%d" % number) for number in range(first, end)]
