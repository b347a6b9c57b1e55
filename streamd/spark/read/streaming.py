"""The reader of a streaming query: where it begins, how far a trigger goes, and what is gone or new since the last one.

Spark runs this in one Python process for the life of the query. Before each trigger it asks for the latest offset, and
gives that of the trigger before, which is done with by then. Both are in its checkpoint, and are all that survives a
restart.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from streamd.spark.daemon import Storage, open_storage
from streamd.spark.options import TRIGGER_BYTES, ReadOptions
from streamd.spark.read.places import Losses, Range, chosen, number_of, range_of
from streamd.spark.read.plan import partitions
from streamd.spark.read.positions import Position, Positions, decode, encode
from streamd.spark.read.records import read_partition
from streamd.spark.read.triggers import Patience, by_bytes, by_records
from streamd.store.errors import NoSuchSegment, StoreError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from streamd.spark.daemon import Info

_log: Final = logging.getLogger("streamd.spark")

Infos = Mapping[str, "Info"]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One read of ``spark.readStream``."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._target: dict[str, Info] | None = None
        """Where the topics ended when a query with AvailableNow began."""
        self._latest: Positions | None = None
        self._published: Positions = {}
        self._patience = Patience(options.trigger_records_min, options.trigger_delay_seconds)

    # -- how far -------------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins. Called by Spark."""
        storage = self._storage()
        losses = Losses(self._options.on_data_loss)
        positions: Positions = {}
        for info in chosen(storage, self._options):
            first = number_of(storage, info, self._options.starting, "startingOffsets")
            begin = losses.retained(info, first, info.number)
            positions[info.name] = Position(info.id, begin, begin, begin - first)
        return encode(positions)

    def getDefaultReadLimit(self) -> ReadLimit:
        """What Spark gives back to `latestOffset`: one limit, as a sign that all of ours count. Called by Spark."""
        options = self._options
        if options.trigger_records_max is not None:
            return ReadMaxRows(options.trigger_records_max)
        if options.trigger_records_min:
            return ReadMinRows(options.trigger_records_min)
        return ReadMaxBytes(options.trigger_bytes_max or TRIGGER_BYTES)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next trigger goes. Called by Spark, when everything before `start` is done with."""
        storage = self._storage()
        begin = decode(start)
        self._publish(begin)
        infos = self._infos(storage)
        heads = self._heads(begin, infos)
        self._latest = {name: head._replace(next=infos[name].number) for name, head in heads.items()}
        ends = self._limited(storage, heads, infos, limit)
        # Spark compares the text of offsets: the same place has to be the same text.
        return start if ends == begin else encode(ends)

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing that comes later is read. Called by Spark."""
        self._target = None
        self._target = dict(self._infos(self._storage()))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the topics ended when the trigger was planned, for the query's progress. Called by Spark right then.

        `streamd.spark.behind_latest` tells how far behind a query is when its trigger is done.
        """
        return None if self._latest is None else encode(self._latest)

    def commit(self, end: dict[str, Any]) -> None:
        """Everything before `end` is done with. Called by Spark, but never for the last batch of AvailableNow."""
        self._publish(decode(end))

    # -- what ----------------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """What a trigger reads: the same again after a restart. Called by Spark."""
        storage = self._storage()
        losses = Losses(self._options.on_data_loss)
        begin = decode(start)
        ranges: list[Range] = []
        for name, last in decode(end).items():
            head = begin.get(name)
            # What was found gone when the offset was made is in its count, and was told then.
            first = last.first if head is None or head.id != last.id else head.next + last.lost - head.lost
            if first >= last.next:
                continue
            try:
                info = storage.segment(last.id)
            except NoSuchSegment:
                losses.deleted(name, first, again=False)
                continue
            first = losses.retained(info, first, last.next)
            if first < last.next:
                ranges.append(range_of(info, first, last.next))
        return [*partitions(storage, ranges, self._options)]

    def read(self, partition: InputPartition) -> Any:
        """One partition. Called by Spark, in a task."""
        return read_partition(self._options, self._schema, partition)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _storage(self) -> Storage:
        return open_storage(self._options.path, self._options.server)

    def _infos(self, storage: Storage) -> Infos:
        """The topics that are there, as far as this query is to see them."""
        options = self._options
        if options.pattern is None:
            found = {info.name: info for info in storage.named(options.topics)}
        else:
            found = {info.name: info for info in storage.segments() if options.selects(info.name)}
        if self._target is None:
            return found
        # What was created since, under a new name or an old one, is not for this query.
        return {
            name: found[name]._replace(number=info.number)
            for name, info in self._target.items()
            if name in found and found[name].id == info.id
        }

    def _heads(self, begin: Positions, infos: Infos) -> Positions:
        """Where each topic goes on, which is later than it ended where records are gone."""
        losses = Losses(self._options.on_data_loss)
        heads: Positions = {}
        for name, position in begin.items():
            info = infos.get(name)
            if info is None and not self._options.reads(name):
                _log.warning("topic %r is not read any more: the query goes on without it", name)
            elif info is None:
                losses.deleted(name, position.next, again=False)
            elif info.id != position.id:
                losses.deleted(name, position.next, again=True)
                heads[name] = Position(info.id, info.first_number, info.first_number, position.lost)
            else:
                first = losses.retained(info, position.next, info.first_number)
                heads[name] = position._replace(next=first, lost=position.lost + first - position.next)
        for name in sorted(infos.keys() - begin.keys()):
            first = infos[name].first_number
            heads[name] = Position(infos[name].id, first, first, 0)
        return heads

    def _limited(self, storage: Storage, heads: Positions, infos: Infos, limit: ReadLimit) -> Positions:
        """How far a trigger may go from here."""
        waiting = {
            name: range_of(infos[name], head.next, infos[name].number)
            for name, head in heads.items()
            if head.next < infos[name].number
        }
        options = self._options
        if not isinstance(limit, ReadAllAvailable):
            records = sum(each.records for each in waiting.values())
            if self._target is None and not self._patience.is_enough(records, time.monotonic()):
                return heads
            if options.trigger_records_max is not None:
                waiting = by_records(waiting, options.trigger_records_max)
            bytes_max = options.trigger_bytes_max
            if bytes_max is None and options.trigger_records_max is None:
                bytes_max = TRIGGER_BYTES
            if bytes_max is not None:
                waiting = by_bytes(storage, waiting, bytes_max)
        return {**heads, **{name: heads[name]._replace(next=each.end) for name, each in waiting.items()}}

    def _publish(self, positions: Positions) -> None:
        """Let everybody see how far this query has come, as the position of a reader group."""
        if self._options.group is None:
            return
        storage = self._storage()
        for name, position in positions.items():
            before = self._published.get(name)
            if before is None or (before.id, before.next) != (position.id, position.next):
                try:
                    storage.set_group(position.id, self._options.group, position.next)
                except StoreError as error:
                    # A topic that is gone, a disk that is full: the query itself can do without.
                    _log.warning("group %r of topic %r is not published: %s", self._options.group, name, error)
        self._published = positions
