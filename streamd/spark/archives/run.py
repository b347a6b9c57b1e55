"""An archive run: what has come to topics since the last time goes to their Delta tables, each record once.

For each topic, round by round::

    1  tasks write Parquet files and sync them; nobody sees them yet
    2  one commit of the Delta log adds them, removes those that were merged, and says how far the archive is
    3  the reader group moves there, which lets retention drop what is archived

A run that is cut off before 2 leaves files that do not count, and that a later run deletes. Between 2 and 3 the next
run moves the group. Of two runs at once the log refuses the second one's commit, which begins again from the new state.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Final

from streamd.client import StorageClient, StorageRefused
from streamd.spark.archives.adopt import Archive
from streamd.spark.archives.delta import END, CommitRefused, TopicTable
from streamd.spark.archives.location import ArchiveError, location_of, refuse_connect
from streamd.spark.archives.plan import Output, plan
from streamd.spark.archives.typed import FORMATS, UNTYPED, Typing, evolved, stored_typing, typing_of
from streamd.spark.archives.write import Done, Job, write_in_tasks
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
GRACE_SECONDS: Final = 3600.0

_ROUND_FILES: Final = 16
"""So many files of full size are written before they are committed."""

_REFUSED_MAX: Final = 3
"""So often another run may be faster before this one gives up."""

_COMMITS_AT_ONCE: Final = 8

_log: Final = logging.getLogger("streamd.spark")


@dataclass(frozen=True)
class Settings:
    """How to archive."""

    path: str | None = None
    server: str | None = None
    group: str | None = GROUP
    """The reader group that tells the daemon how far the archive is; only with a server."""
    file_bytes: int = FILE_BYTES
    """What a file has about, in bytes of its records. Smaller ones are merged as more comes."""
    grace_seconds: float = GRACE_SECONDS
    """How long files that were merged stay, for queries that began before."""
    on_data_loss: OnDataLoss = "fail"
    schema: str | None = None
    """Typed columns, such as ``id long, at timestamp``; the table keeps them for runs that give none."""
    format: str = FORMATS[0]
    """What messages are, for `schema`."""


@dataclass(frozen=True)
class Archived:
    """What a run has done for a topic."""

    topic: str
    first: int
    """Where the archive begins."""
    end: int
    """Everything below is archived."""
    rows: int
    """Archived by this run."""
    bytes: int
    """The size of the files that this run wrote."""
    files: int
    """Written by this run."""
    lost: int
    """How many records were gone before they could be archived, ever."""
    unfit: int
    """How many of this run's rows do not fit the schema: the column `error` says why."""


class ArchiveRun:
    """One run over some topics."""

    def __init__(self, spark: SparkSession, topics: Sequence[str], uri: str, settings: Settings) -> None:
        refuse_connect(spark)
        if settings.path is None and settings.server is None:
            raise ArchiveError("say where to read: give server, path, or both")
        self._spark = spark
        self._settings = settings
        self._typing = None if settings.schema is None else typing_of(settings.format, settings.schema)
        location = location_of(spark, uri)
        location.make()
        self._archive = Archive(location)
        self._storage = open_storage(settings.path, settings.server)
        self._group = _Group(settings)
        self._infos = _chosen(self._storage, topics)
        self._topics: dict[str, _Topic] = {}

    def run(self) -> list[Archived]:
        """Archive what there is now."""
        try:
            return self._run()
        finally:
            self._group.close()

    def _run(self) -> list[Archived]:
        for info in self._infos:
            table = self._archive.table(info.name, adopt=True)
            self._topics[info.name] = _Topic(info, table, self._settings, self._typing, self._group)
        topics = list(self._topics.values())
        for topic in topics:
            topic.begin()
        self._name(topics)
        while jobs := self._jobs(topics):
            self._write(jobs)
            self._name(topics)
        for topic in topics:
            topic.settle()
        return [topic.archived() for topic in topics]

    def _name(self, topics: Sequence[_Topic]) -> None:
        """Let tables be found by the names of their topics."""
        for topic in topics:
            if topic.exists:
                self._archive.name(topic.info.name)

    def _jobs(self, topics: Sequence[_Topic]) -> list[Job]:
        """What to write next."""
        waiting = {topic.info.name: new for topic in topics if (new := topic.waiting()) is not None}
        waiting = by_bytes(self._storage, waiting, _ROUND_FILES * self._settings.file_bytes)
        return [job for name, new in waiting.items() for job in self._topics[name].jobs(self._storage, new)]

    def _write(self, jobs: Sequence[Job]) -> None:
        names = list(dict.fromkeys(job.topic for job in jobs))
        what = f"archive {len(jobs)} files of {len(names)} topics to {self._archive.location.uri}"
        self._spark.sparkContext.setJobDescription(what)
        done: dict[str, list[Done]] = {name: [] for name in names}
        for each in write_in_tasks(self._spark, jobs):
            if each.gone:
                raise DataLost(f"topic {each.topic!r}: {each.gone} while they were archived. Run it again")
            done[each.topic].append(each)
        topics = [self._topics[name] for name in names]
        with ThreadPoolExecutor(_COMMITS_AT_ONCE) as pool:
            committed = list(pool.map(lambda topic: topic.commit(done[topic.info.name]), topics))
        for topic, is_committed in zip(topics, committed, strict=True):
            if not is_committed:
                topic.begin_again(done[topic.info.name])
        self._group.move([(topic.info.id, topic.end) for topic in topics])


class _Group:
    """The reader group that shows how far the archive is; nothing where no daemon is told."""

    def __init__(self, settings: Settings) -> None:
        self.name = settings.group if settings.server is not None else None
        self._connection = Retrying(settings.server or "")

    def position(self, id: int) -> int | None:
        """Where the group is in a topic."""
        name = self.name
        return None if name is None else self._connection.run(lambda client: client.group(id, name))

    def move(self, positions: Sequence[tuple[int, int]]) -> None:
        """Put the group to a position in each of these topics."""
        name = self.name
        if name is None:
            return
        try:
            for id, position in positions:
                self._connection.run(partial(_set_group, id, name, position))
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

    def __init__(self, info: Info, table: TopicTable, settings: Settings, typing: Typing | None, group: _Group) -> None:
        self.info = info
        self._settings = settings
        self._wanted = typing
        self._group = group
        self._rows = self._bytes = self._files = self._unfit = self._refused = 0
        self._outputs: list[Output] = []
        self._look_at(table)

    def _look_at(self, table: TopicTable) -> None:
        """Take over what a table holds."""
        self._table = table
        found = table.number(END)
        self.end = self.info.first_number if found is None else found
        first = table.number("streamd.first")
        self._first = self.end if first is None else first
        format = table.number("streamd.format")
        self._typing = None if format is None else stored_typing(format, table.schema())

    @property
    def exists(self) -> bool:
        """Whether there is a table."""
        return self._table.exists

    def begin(self) -> None:
        """Check that this archive and this topic belong together; ArchiveError, DataLost."""
        info, uri = self.info, self._table.location.uri
        if self.exists:
            if (self._number("streamd.segment"), self._number("streamd.created")) != (info.id, info.created):
                raise ArchiveError(
                    f"{uri} has an archive of another topic {info.name!r}, which was deleted since, or is of another "
                    "store: archive this one elsewhere"
                )
            if self.end > info.number:
                raise ArchiveError(
                    f"{uri} has topic {info.name!r} up to offset {self.end}, and it ends at {info.number}: the store "
                    "is not the one that was archived, or an older copy of it. Archive it elsewhere"
                )
        self._check_group()
        if self._wanted is not None:
            self._typing = evolved(self._typing, self._wanted)
            if self.exists:
                self._table = self._table.add_columns(self._typing.schema)
        if self.end < info.first_number:
            self._lose(self.end, info.first_number)

    def _number(self, name: str) -> int | None:
        return self._table.number(name)

    def _lose(self, first: int, end: int) -> None:
        name = self.info.name
        if self._settings.on_data_loss != "skip":
            raise DataLost(
                f"offsets {first} to {end - 1} of topic {name!r} are gone and not archived: they were truncated, or "
                "have expired. Go on behind them with --on-data-loss skip; archived_only in [[retention]] prevents it"
            )
        _log.warning("topic %r: offsets %d to %d are gone and missing in the archive", name, first, end - 1)
        self.end = end

    def _check_group(self) -> None:
        """Move the group to where the archive is, if a run was cut off before it could."""
        position = self._group.position(self.info.id)
        if position is not None and position > max(self.end, self.info.first_number):
            raise ArchiveError(
                f"reader group {self._group.name!r} of topic {self.info.name!r} is at {position}, and the archive in "
                f"{self._table.location.uri} ends at {self.end}: it is another archive's. Give this one a group of "
                "its own"
            )
        if self.exists and position != self.end:
            self._group.move([(self.info.id, self.end)])

    def waiting(self) -> Range | None:
        """What is not archived yet."""
        return None if self.end >= self.info.number else range_of(self.info, self.end, self.info.number)

    def jobs(self, storage: Storage, new: Range) -> Iterator[Job]:
        """The files to write for new records."""
        settings = self._settings
        self._outputs = plan(storage, self._table.files(), new, settings.file_bytes)
        for output in self._outputs:
            yield Job(self._table.location, settings.path, settings.server, self.info.name, self._typing, output)

    def commit(self, done: Sequence[Done]) -> bool:
        """Make what was written count; False where another commit was faster."""
        files = [each.file for each in done if each.file is not None]
        outputs, self._outputs = self._outputs, []
        end = outputs[-1].new.end if outputs else self.end
        numbers = {END: end}
        if not self.exists:
            numbers |= {"streamd.first": self._first, "streamd.segment": self.info.id}
            numbers |= {"streamd.created": self.info.created}
        if self._typing is not None:
            numbers["streamd.format"] = FORMATS.index(self._typing.format)
        schema = UNTYPED if self._typing is None else self._typing.schema
        merged = [file for output in outputs for file in output.merged]
        try:
            self._table = self._table.commit(schema, files, merged, numbers)
        except CommitRefused:
            return False
        self.end = end
        self._files += len(files)
        self._rows += sum(output.new.records for output in outputs)
        self._bytes += sum(file.size for file in files)
        self._unfit += sum(each.unfit for each in done)
        self._table.vacuum(self._settings.grace_seconds)
        return True

    def begin_again(self, done: Sequence[Done]) -> None:
        """Drop what was written, and begin anew from what the other commit left."""
        self._refused += 1
        files = self._table.location.files()
        for each in done:
            if each.file is not None:
                files.delete_file(each.file.path)
        if self._refused > _REFUSED_MAX:
            raise ArchiveError(
                f"other runs are archiving topic {self.info.name!r} to {self._table.location.uri}: run one of them"
            )
        self._look_at(TopicTable.open(self._table.location))
        self.begin()

    def settle(self) -> None:
        """Say how far the archive is also where there was nothing to write behind lost records."""
        if self.exists and self.end != self._number(END) and self.commit(()):
            self._group.move([(self.info.id, self.end)])

    def archived(self) -> Archived:
        """What was done."""
        kept = sum(file.rows for file in self._table.files())
        lost = self.end - self._first - kept
        return Archived(self.info.name, self._first, self.end, self._rows, self._bytes, self._files, lost, self._unfit)


def _set_group(id: int, group: str, position: int, client: StorageClient) -> None:
    client.set_group(id, group, position)


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
