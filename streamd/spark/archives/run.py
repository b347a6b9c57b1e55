"""An archive run: topics to Parquet, each record once, whenever and wherever a run is cut off.

For each topic, round by round::

    1  a version of the manifest says what is going to be written
    2  tasks write these files; each appears whole, under a name that follows from its records
    3  the next version names them: from here on they count
    4  the reader group moves there, which lets retention drop what is archived

A run that is cut off before 1 has done nothing. Between 1 and 3 it leaves a plan, which the next run carries out first:
it writes the same records to the same names, or finds them written. Between 3 and 4 the next run moves the group.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from streamd.client import StorageRefused
from streamd.spark.archives.files import ArchiveError, Files
from streamd.spark.archives.hadoop import HadoopFiles
from streamd.spark.archives.location import files_of
from streamd.spark.archives.manifest import Manifest, Manifests, Output
from streamd.spark.archives.plan import Shape, plan
from streamd.spark.archives.spark import write_by_spark
from streamd.spark.archives.write import Done, Job, is_written, write_in_tasks
from streamd.spark.daemon import Storage, open_storage
from streamd.spark.options import OnDataLoss
from streamd.spark.read.places import DataLost, Range, range_of
from streamd.spark.read.triggers import by_bytes
from streamd.spark.sink.hidden import Retrying

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamd.spark.daemon import Info

GROUP: Final = "archive"
FILE_BYTES: Final = 256 << 20
YOUNG_SECONDS: Final = 3600.0

_ROUND_FILES: Final = 16
"""So many files of full size are written before they count."""

_log: Final = logging.getLogger("streamd.spark")


@dataclass(frozen=True)
class Settings:
    """How to archive."""

    path: str | None = None
    server: str | None = None
    group: str | None = GROUP
    """The reader group that tells the daemon how far the archive is; only with a server."""
    file_bytes: int = FILE_BYTES
    wait: bool = True
    """False: small files are put in place at once, without waiting for more of their day."""
    young_seconds: float = YOUNG_SECONDS
    """How long small files stay after they were put together, for queries that began before."""
    on_data_loss: OnDataLoss = "fail"


@dataclass(frozen=True)
class Archived:
    """What a run has done for a topic."""

    topic: str
    first: int
    """Where the archive begins."""
    end: int
    """Everything below is archived."""
    rows: int
    """Of them by this run."""
    bytes: int
    files: int
    """Written by this run."""
    lost: int
    """How many records were gone before they could be archived, ever."""


class ArchiveRun:
    """One run over some topics."""

    def __init__(self, spark: SparkSession, topics: Sequence[str], uri: str, settings: Settings) -> None:
        if settings.path is None and settings.server is None:
            raise ArchiveError("say where to read: give server, path, or both")
        self._spark = spark
        self._settings = settings
        self._shape = Shape(settings.file_bytes, settings.wait)
        self._files = files_of(spark, uri)
        self._storage = open_storage(settings.path, settings.server)
        self._group = _Group(settings)
        found = _chosen(self._storage, topics)
        self._topics = {info.name: _Topic(info, self._files, settings, self._group) for info in found}

    def run(self) -> list[Archived]:
        """Archive what there is now."""
        try:
            return self._run()
        finally:
            self._group.close()

    def _run(self) -> list[Archived]:
        topics = self._topics
        for topic in topics.values():
            topic.begin()
        # What a run before has left, then what has come since.
        self._write([topic for topic in topics.values() if topic.manifest.plan])
        while planned := self._plan(list(topics.values())):
            self._write(planned)
        for topic in topics.values():
            topic.tidy()
        return [topic.archived() for topic in topics.values()]

    def _plan(self, topics: Sequence[_Topic]) -> list[_Topic]:
        """Settle what to write next; which topics there is something to write for."""
        waiting = {topic.info.name: new for topic in topics if (new := topic.waiting()) is not None}
        waiting = by_bytes(self._storage, waiting, _ROUND_FILES * self._settings.file_bytes)
        today = datetime.now(UTC).date().isoformat()
        for topic in topics:
            topic.plan(self._storage, waiting.get(topic.info.name), self._shape, today)
        return [topic for topic in topics if topic.manifest.plan]

    def _write(self, topics: Sequence[_Topic]) -> None:
        jobs = [job for topic in topics for job in topic.jobs()]
        if not jobs:
            return
        what = f"archive {len(jobs)} files of {len(topics)} topics to {self._files.uri}"
        self._spark.sparkContext.setJobDescription(what)
        for done in self._carry_out(jobs):
            if done.gone:
                self._topics[done.topic].drop_plan()
                raise DataLost(f"topic {done.topic!r}: {done.gone} while they were archived. Run it again")
        for topic in topics:
            topic.commit()

    def _carry_out(self, jobs: Sequence[Job]) -> list[Done]:
        if isinstance(self._files, HadoopFiles):
            return write_by_spark(self._spark, self._files, jobs)
        return write_in_tasks(self._spark, jobs)


class _Group:
    """The reader group that shows how far the archive is; nothing where no daemon is told."""

    def __init__(self, settings: Settings) -> None:
        self.name = settings.group if settings.server is not None else None
        self._connection = Retrying(settings.server or "")

    def position(self, id: int) -> int | None:
        """Where it is in a segment."""
        name = self.name
        return None if name is None else self._connection.run(lambda client: client.group(id, name))

    def move(self, id: int, position: int) -> None:
        """Put it there."""
        name = self.name
        if name is None:
            return
        try:
            self._connection.run(lambda client: client.set_group(id, name, position))
        except StorageRefused as error:
            if error.reason != "NotAllowed":
                raise
            raise ArchiveError(
                f"no rule of access lets this archive say how far it is ({error}): a rule that fits it has to have "
                f'groups = ["{name}"] beside read, see docs/security.md'
            ) from error

    def close(self) -> None:
        """Hang up."""
        self._connection.hang_up()


class _Topic:
    """How far one topic is."""

    def __init__(self, info: Info, files: Files, settings: Settings, group: _Group) -> None:
        self.info = info
        self._files = files
        self._settings = settings
        self._group = group
        self._manifests = Manifests(files, info.name)
        found = self._manifests.last()
        self.manifest = found or Manifest(info.name, info.id, info.created, info.first_number, info.first_number)
        self._known = found is not None
        self._rows = self._bytes = self._written = 0

    def begin(self) -> None:
        """Check that this archive and this topic belong together; ArchiveError, DataLost."""
        info, manifest = self.info, self.manifest
        if (manifest.id, manifest.created) != (info.id, info.created):
            raise ArchiveError(
                f"{self._files.uri} has an archive of another topic {info.name!r}, which was deleted since, or is of "
                "another store: archive this one elsewhere"
            )
        if manifest.end > info.number:
            raise ArchiveError(
                f"{self._files.uri} has topic {info.name!r} up to offset {manifest.end}, and it ends at {info.number}: "
                "the store is not the one that was archived, or an older copy of it. Archive it elsewhere"
            )
        self._check_group()
        for output in manifest.plan:
            self._files.sweep(output.file.path)
        if any(self._is_impossible(output) for output in manifest.plan):
            # What is left of it is planned anew.
            self.drop_plan()
        if not self.manifest.plan and manifest.end < info.first_number:
            self._lose(manifest.end, info.first_number)

    def _is_impossible(self, output: Output) -> bool:
        """Whether what is to be written is gone, and was not written before it went."""
        return output.live < min(self.info.first_number, output.file.end) and not is_written(self._files, output.file)

    def _lose(self, first: int, end: int) -> None:
        name = self.info.name
        if self._settings.on_data_loss != "skip":
            raise DataLost(
                f"offsets {first} to {end - 1} of topic {name!r} are gone and not archived: they were truncated, or "
                "have expired. Go on behind them with --on-data-loss skip; archived_only in [[retention]] prevents it"
            )
        _log.warning("topic %r: offsets %d to %d are gone and missing in the archive", name, first, end - 1)
        self.manifest = replace(self.manifest, end=end, lost=(*self.manifest.lost, (first, end)))

    def _check_group(self) -> None:
        """Move the group to where the archive is, if a run was cut off before it could."""
        manifest = self.manifest
        position = self._group.position(manifest.id)
        if position is not None and position > max(manifest.end, self.info.first_number):
            raise ArchiveError(
                f"reader group {self._group.name!r} of topic {manifest.topic!r} is at {position}, and the archive in "
                f"{self._files.uri} ends at {manifest.end}: it is another archive's. Give this one a group of its own"
            )
        if self._known and position != manifest.end:
            self._group.move(manifest.id, manifest.end)

    def waiting(self) -> Range | None:
        """What is not archived yet."""
        if self.manifest.end >= self.info.number:
            return None
        return range_of(self.info, self.manifest.end, self.info.number)

    def plan(self, storage: Storage, new: Range | None, shape: Shape, today: str) -> None:
        """Settle what to write next, and say so in the manifest."""
        outputs = plan(storage, self.manifest, new, shape, today)
        if outputs:
            self.manifest = self._manifests.commit(replace(self.manifest, plan=outputs))

    def jobs(self) -> Iterator[Job]:
        """What the plan asks for."""
        settings = self._settings
        for output in self.manifest.plan:
            yield Job(self._files.location, settings.path, settings.server, self.info.name, self.info.id, output)

    def commit(self) -> None:
        """All of the plan is written: it counts from here on."""
        outputs = self.manifest.plan
        self.manifest = self._manifests.commit(self.manifest.done(outputs, time.time()))
        self._written += len(outputs)
        self._rows += sum(output.file.end - output.live for output in outputs)
        self._bytes += sum(self._files.size(output.file.path) for output in outputs)
        self._group.move(self.info.id, self.manifest.end)

    def drop_plan(self) -> None:
        """Nothing will come of the plan: what was written of it goes first, so that it is never seen beside others."""
        for output in self.manifest.plan:
            self._files.delete(output.file.path)
        self.manifest = self._manifests.commit(replace(self.manifest, plan=()))

    def tidy(self) -> None:
        """Delete young files that do not count any more, once nobody reads them."""
        before = time.time() - self._settings.young_seconds
        over = [each for each in self.manifest.retired if each.at <= before]
        if not over:
            return
        for each in over:
            self._files.delete(each.path)
        kept = tuple(each for each in self.manifest.retired if each.at > before)
        self.manifest = self._manifests.commit(replace(self.manifest, retired=kept))

    def archived(self) -> Archived:
        """What was done."""
        manifest = self.manifest
        lost = sum(end - first for first, end in manifest.lost)
        return Archived(manifest.topic, manifest.first, manifest.end, self._rows, self._bytes, self._written, lost)


def _chosen(storage: Storage, patterns: Sequence[str]) -> list[Info]:
    """The topics of these names and shell patterns, as they are now. What is named has to be there."""
    found: dict[str, Info] = {info.name: info for info in storage.named(patterns)}
    known: dict[str, Info] = {}
    for pattern in patterns:
        if pattern in found:
            continue
        known = known or {info.name: info for info in storage.segments()}
        names = [name for name in known if fnmatchcase(name, pattern)]
        if not names:
            near = get_close_matches(pattern, known, 1)
            raise ArchiveError(f"there is no topic {pattern!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        found.update((name, known[name]) for name in sorted(names))
    if not found:
        raise ArchiveError("say what to archive: names of topics, or patterns such as 'logs.*'")
    return list(found.values())
