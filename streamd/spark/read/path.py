"""A store's files, read where they lie: by any machine that sees them, whether a daemon runs or not."""

from __future__ import annotations

from collections.abc import Sequence

from streamd.store.errors import NoSuchSegment
from streamd.store.reading.outside import OutsideReader, SegmentInfo


class PathStorage(OutsideReader):
    """The reader that takes no lock and changes nothing."""

    def named(self, names: Sequence[str]) -> list[SegmentInfo]:
        """The segments of these names, as far as there are any."""
        found = []
        for name in names:
            try:
                found.append(self.segment(name))
            except NoSuchSegment:
                pass
        return found

    def set_group(self, id: int, group: str, position: int) -> None:
        """Nothing is ever written here; the options allow no group with a path."""
        raise NotImplementedError
