"""How much a trigger reads of what is waiting: limits shared out among topics, and the patience to wait for more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from streamd.spark.read.places import Range

if TYPE_CHECKING:
    from streamd.spark.daemon import Storage

# Each part costs a lookup: a backlog of a thousand triggers is cut in steps.
_PARTS_MAX: Final = 16


class Patience:
    """Waits for a number of records, but not for ever."""

    def __init__(self, records_min: int, seconds_max: float) -> None:
        self._records_min = records_min
        self._seconds_max = seconds_max
        self._since: float | None = None

    def is_enough(self, records: int, now: float) -> bool:
        """Whether to go on with so many records, at this time."""
        if not records:
            return True
        if self._since is None:
            self._since = now
        if records < self._records_min and now - self._since < self._seconds_max:
            return False
        self._since = None
        return True


def by_records(waiting: Mapping[str, Range], records_max: int) -> dict[str, Range]:
    """At most so many records of all topics together: of each the same share of what is waiting there."""
    total = sum(each.records for each in waiting.values())
    if total <= records_max:
        return dict(waiting)
    shares = {name: each.records * records_max // total for name, each in waiting.items()}
    # What rounding has left, one for each, the largest topics first.
    left = records_max - sum(shares.values())
    for name in sorted(waiting, key=lambda name: -waiting[name].records)[:left]:
        shares[name] += 1
    return {name: _shortened(each, each.first + shares[name]) for name, each in waiting.items()}


def by_bytes(storage: Storage, waiting: Mapping[str, Range], bytes_max: int) -> dict[str, Range]:
    """About so many bytes of all topics together: whole blocks where there are several, and a record at least."""
    total = sum(each.bytes for each in waiting.values())
    if total <= bytes_max:
        return dict(waiting)
    return {name: _cut(storage, each, each.bytes * bytes_max // total) for name, each in waiting.items()}


def _cut(storage: Storage, whole: Range, bytes_max: int) -> Range:
    while whole.bytes > bytes_max:
        parts = min(-(-whole.bytes // max(bytes_max, 1)), _PARTS_MAX)
        points = storage.split_points(whole.id, whole.first, whole.end, parts)
        if not points:
            records = max(whole.records * bytes_max // whole.bytes, 1)
            return _shortened(whole, whole.first + records)
        whole = _shortened(whole, points[0])
    return whole


def _shortened(whole: Range, end: int) -> Range:
    return whole._replace(end=end, bytes=whole.bytes * (end - whole.first) // whole.records)
