"""Archives of the layout before Delta: their files become those of a Delta table where they lie.

They were laid out as ``topic=T/date=D/part-….parquet``, with small files under ``_streamd/young`` and a manifest for
each topic under ``_streamd/manifests``, of which the last version counts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from deltalake.transaction import AddAction
from pyarrow.fs import FileSelector

from streamd.spark.archives.delta import END, TopicTable
from streamd.spark.archives.location import APART, ArchiveError, Location, directory_of, name_of
from streamd.spark.archives.parquet import read_files, statistics, timestamp_bound, write_file
from streamd.spark.archives.typed import UNTYPED

_FORMAT: Final = 1
_MANIFESTS: Final = "_streamd/manifests"
_YOUNG: Final = "_streamd/young"

# What such a directory has as it is, beside letters, digits and what is not ASCII.
_PLAIN: Final = " !$&()+,-.;<>@_`|~"


class Archive:
    """The tables of all topics below one location."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._names = location.names()
        if APART in self._names:
            self._names |= {f"{APART}/{name}" for name in location.at(APART).names()}
        self._old = location.at(_MANIFESTS).names() if "_streamd" in self._names else set()

    def table(self, topic: str, *, adopt: bool) -> TopicTable:
        """The table of a topic, which may not exist yet. One of the old layout is adopted, or refused."""
        old = _old_directory(topic)
        directory = self._directory(topic)
        location = self.location.at(directory)
        table = TopicTable.open(location) if directory in self._names else TopicTable(location, None)
        if old not in self._old:
            return table
        if not adopt:
            raise ArchiveError(
                f"{self.location.uri} has topic {topic!r} in the layout of an earlier version: run streamctl archive "
                "once, and it is a Delta table"
            )
        if not table.exists:
            table = self._adopted(old, table)
        for place in (_YOUNG, _MANIFESTS):
            self.location.at(f"{place}/{old}").remove()
        self._old.discard(old)
        return table

    def name(self, topic: str) -> None:
        """Let a topic's table be found under `name_of` the topic, wherever its directory is."""
        name, directory = name_of(topic), self._directory(topic)
        if name != directory and name not in self._names:
            self.location.link(name, directory)
            self._names.add(name)

    def _directory(self, topic: str) -> str:
        """The directory of a topic's table: one of the old layout stays where it is."""
        old = _old_directory(topic)
        return old if old in self._names and "%" not in old else directory_of(topic)

    def _adopted(self, old: str, table: TopicTable) -> TopicTable:
        """The table of what the last manifest names. Files in place stay; young ones, which are small, become one."""
        manifest = self._manifest(old)
        files = self.location.files()
        paths = {str(file["path"]) for file in manifest["files"]}
        # What a run was about to write does not count.
        for output in manifest["plan"]:
            if output["file"]["path"] not in paths and files.get_file_info(output["file"]["path"]).is_file:
                files.delete_file(output["file"]["path"])
        added = list(self._in_place(manifest, table.location))
        young = [file for file in manifest["files"] if file["young"]]
        if young:
            first, end = young[0]["first"], young[-1]["end"]
            name = f"part-{first:020}-{end:020}-adopted.parquet"
            rows = read_files(self.location, [file["path"] for file in young], UNTYPED)
            added.append(write_file(table.location, name, UNTYPED, rows, is_new=True))
        numbers = {
            END: manifest["end"],
            "streamd.first": manifest["first"],
            "streamd.segment": manifest["id"],
            "streamd.created": manifest["created"],
        }
        return table.commit(UNTYPED, added, (), numbers)

    def _in_place(self, manifest: dict[str, Any], location: Location) -> Iterator[AddAction]:
        """Files in place, as the Delta log has them. The statistics of their times are those of their day."""
        files = self.location.files()
        directory = location.uri.removeprefix(f"{self.location.uri}/")
        for file in manifest["files"]:
            if file["young"]:
                continue
            topic, _, path = file["path"].partition("/")
            if topic != directory and files.get_file_info(file["path"]).is_file:
                # A % in the old directory's name is nothing for a Delta table.
                files.move(file["path"], f"{directory}/{path}")
            day = datetime.fromisoformat(file["date"]).replace(tzinfo=UTC)
            low = {"offset": file["first"], "timestamp": timestamp_bound(day, up=False)}
            high = {"offset": file["end"] - 1, "timestamp": timestamp_bound(day + timedelta(days=1), up=True)}
            size = files.get_file_info(f"{directory}/{path}").size
            told = statistics(file["rows"], low, high, {"offset": 0, "timestamp": 0})
            yield AddAction(path, size, {}, time.time_ns() // 1_000_000, True, told)

    def _manifest(self, old: str) -> dict[str, Any]:
        files = self.location.files()
        versions = files.get_file_info(FileSelector(f"{_MANIFESTS}/{old}"))
        names = [info.path for info in versions if info.base_name.endswith(".json") and info.base_name[0] != "."]
        with files.open_input_file(max(names)) as file:
            try:
                manifest: dict[str, Any] = json.loads(file.read())
            except ValueError as error:
                raise ArchiveError(f"{max(names)} is damaged ({error}): restore it from a backup") from None
        if manifest.get("format") != _FORMAT:
            raise ArchiveError(
                f"{max(names)} is of format {manifest.get('format')!r}, which this streamd does not know"
            )
        return manifest


def _old_directory(topic: str) -> str:
    return f"topic={''.join(quote(each, safe=_PLAIN) if each.isascii() else each for each in topic)}"
