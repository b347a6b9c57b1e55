"""The Delta table of one topic: what is in it, and the one commit that makes what a run wrote count.

How far the archive is, and whose it is, are application transactions: they are numbers, and are in the same commit as
the files. A commit is refused by the log where another one came in between, so a stale writer changes nothing::

    streamd           the offset up to which the topic is archived
    streamd.first     the offset where the archive begins
    streamd.segment   the topic's id, and
    streamd.created   when it was created: they tell a topic of the same name from this one
    streamd.format    of typed columns: the index in `streamd.spark.archives.typed.FORMATS`
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from pyarrow.fs import FileSelector, FileType

from streamd.spark.archives.location import ArchiveError, Location, sync

END: Final = "streamd"
_LOG: Final = "_delta_log"


class CommitRefused(Exception):
    """Another commit came in between. What the table holds has to be looked at again."""


@dataclass(frozen=True)
class File:
    """A file of a table, with the records from `first` to `end` (not included), but for those that were lost."""

    path: str
    first: int
    end: int
    rows: int
    size: int


class TopicTable:
    """The table, as of the version that it was opened at."""

    def __init__(self, location: Location, table: DeltaTable | None) -> None:
        self.location = location
        self._table = table

    @classmethod
    def open(cls, location: Location) -> TopicTable:
        """The table at a location, which may not exist yet; ArchiveError where it can't be read."""
        if location.is_local:
            _drop_torn_commit(Path(location.uri, _LOG))
        try:
            return cls(location, DeltaTable(location.delta_uri, storage_options=location.storage_options))
        except TableNotFoundError:
            return cls(location, None)
        except (DeltaError, OSError) as error:
            raise ArchiveError(f"{location.uri} can't be read: {error}") from None

    @property
    def exists(self) -> bool:
        """Whether anything was ever archived here."""
        return self._table is not None

    @property
    def delta(self) -> DeltaTable:
        """The table for deltalake; it has to exist."""
        assert self._table is not None, "there is no table yet"
        return self._table

    def number(self, name: str) -> int | None:
        """The version of an application transaction."""
        return None if self._table is None else self._table.transaction_version(name)

    def schema(self) -> Any:
        """The columns, in Arrow's words."""
        return pa.schema(self.delta.schema().to_arrow())

    def files(self) -> list[File]:
        """All files, in the order of their records."""
        if self._table is None:
            return []
        columns = pa.table(self._table.get_add_actions(flatten=True)).to_pydict()
        names = ("path", "min.offset", "max.offset", "num_records", "size_bytes")
        files = [
            File(path, first, last + 1, rows, size)
            for path, first, last, rows, size in zip(*(columns.get(name, ()) for name in names), strict=True)
        ]
        return sorted(files, key=lambda file: file.first)

    def paths(self, conditions: Sequence[tuple[str, str, Any]] = ()) -> list[str]:
        """The files that may have rows for which all of these hold, by their statistics."""
        known = [condition for condition in conditions if condition[0] in self.schema().names]
        whole = self.delta.file_uris(file_pruning_predicate=known or None)
        # deltalake tells them quoted, and those of this table have no character that has to be.
        names = {file.path.rpartition("/")[2]: file.path for file in self.files()}
        return [names[uri.rpartition("/")[2]] for uri in whole]

    def commit(
        self,
        schema: Any,
        added: Sequence[AddAction],
        removed: Iterable[File],
        numbers: Mapping[str, int],
    ) -> TopicTable:
        """The table with files added and removed and these transactions, all in one commit; CommitRefused."""
        marks = [Transaction(name, version) for name, version in numbers.items()]
        properties = CommitProperties(max_commit_retries=0, app_transactions=marks)
        wanted = Schema.from_arrow(schema)
        now = time.time_ns() // 1_000_000
        gone = [RemoveAction(file.path, False, now, file.size, {}) for file in removed]
        try:
            if self._table is None:
                create_table_with_add_actions(
                    self.location.delta_uri,
                    wanted,
                    list(added),
                    storage_options=self.location.storage_options,
                    commit_properties=properties,
                )
            else:
                self._table.create_write_transaction([*gone, *added], "append", wanted, commit_properties=properties)
        except CommitFailedError as error:
            raise CommitRefused(str(error)) from None
        except DeltaError as error:
            if self._table is None and "already exists" in str(error):
                raise CommitRefused(str(error)) from None
            raise ArchiveError(f"{self.location.uri}: {error}") from None
        made = TopicTable.open(self.location)
        made.sync()
        return made

    def add_columns(self, schema: Any) -> TopicTable:
        """The table with the columns of this schema that it lacks: they are null in what is there."""
        known = set(self.schema().names)
        fields = [field for field in Schema.from_arrow(schema).fields if field.name not in known]
        if not fields:
            return self
        try:
            self.delta.alter.add_columns(fields, commit_properties=CommitProperties(max_commit_retries=0))
        except CommitFailedError as error:
            raise CommitRefused(str(error)) from None
        return TopicTable.open(self.location)

    def sync(self) -> None:
        """Make the last commit durable. Object stores do that themselves."""
        if self.location.is_local:
            log = Path(self.location.uri, _LOG)
            commit = [*log.glob(f"{self.delta.version():020}*"), *log.glob("_last_checkpoint")]
            for path in (*commit, log, log.parent):
                sync(path)

    def vacuum(self, seconds: float) -> None:
        """Delete files that do not count, and did not for so long: merged ones, and what a run left that was cut off.

        Only behind a commit of one's own: then whoever else is writing files now is going to be refused.
        """
        counting = {file.path for file in self.files()}
        before = time.time() - seconds
        files = self.location.files()
        for info in files.get_file_info(FileSelector("", recursive=True)):
            is_data = info.type == FileType.File and info.path.endswith(".parquet") and _LOG not in info.path
            if is_data and info.path not in counting and info.mtime.timestamp() <= before:
                files.delete_file(info.path)


def _drop_torn_commit(log: Path) -> None:
    """Remove a last commit that a power cut left empty: it was not synced, so nobody has relied on it."""
    last = max(log.glob("*.json"), default=None)
    if last is not None and os.path.getsize(last) == 0:
        last.unlink()
