"""A test case with a daemon and an archive, which is looked at from outside: with deltalake alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from deltalake import DeltaTable

import streamd.spark
from streamd.spark.archives.adopt import Archive
from streamd.spark.archives.location import location_of
from streamd.spark.archives.run import Archived
from tests.rigs.sesp_client import Sesp
from tests.rigs.spark.session import SparkCase, spark

Rows = list[tuple[int, bytes]]


class Killed(BaseException):
    """Stands for the end of the process."""


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

    def delta(self, topic: str) -> DeltaTable:
        """The table as others see it: by its percent-encoded name, where there are links."""
        if "://" not in self.uri:
            return DeltaTable(f"{self.uri}/{quote(topic, safe='').replace('..', '%2E%2E')}")
        location = Archive(location_of(spark(), self.uri)).table(topic, adopt=False).location
        return DeltaTable(location.delta_uri, storage_options=location.storage_options)

    def end(self, topic: str) -> int | None:
        """The archived offset that the table tells; None where there is no table."""
        table = Archive(location_of(spark(), self.uri)).table(topic, adopt=False)
        return table.number("streamd")

    def columns(self, topic: str) -> dict[str, list[Any]]:
        """The columns of a table, in the order of offsets."""
        found: dict[str, list[Any]] = pa.table(self.delta(topic).to_pyarrow_table()).sort_by("offset").to_pydict()
        return found

    def archived(self, topic: str) -> Rows:
        """What somebody finds who knows nothing of streamd."""
        columns = self.columns(topic)
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
