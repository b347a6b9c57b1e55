"""The segments that a fold concerns, as the journal files leave them."""

from __future__ import annotations

from streamd.batch import Buffer
from streamd.store.journal.frame import Header, Kind
from streamd.store.packs.catalog import Catalog, Moved, Row
from streamd.store.segments.registry import Segments
from streamd.store.segments.segment import Segment


class Touched(Segments):
    """The segments that the folded files name, each fetched from the catalog when it is first named."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self._catalog = catalog
        self.known: dict[int, Segment] = {}
        self.created: set[int] = set()
        self.moved: list[Moved] = []
        # Those who follow it need to know how far it is, whether it is named here or not.
        self.broadcast = catalog.broadcast() or self.broadcast
        self.shared: set[tuple[int, int]] = set()
        """Where payloads stand that went to several segments."""

    def apply(
        self, header: Header, sequence: int, timestamp: int, file: int, position: int, body: Buffer = b""
    ) -> None:
        super().apply(header, sequence, timestamp, file, position, body)
        if header.kind == Kind.PAYLOAD:
            self.shared.add((file, position))
        elif header.kind == Kind.CREATE:
            self.known[sequence] = self.by_id[sequence]
            self.created.add(sequence)
        elif header.kind == Kind.PUBLISH:
            source = int.from_bytes(body, "little")
            self.moved.append(Moved(source, header.segment, header.number, header.offset, timestamp))

    def needs(self, row: Row) -> bool:
        """Whether anybody can still ask for these records: what they were published into may be gone by now."""
        segment = self.known[row.segment]
        return not segment.deleted and row.number + row.records > segment.first_number

    def _segment(self, id: int) -> Segment:
        if id not in self.by_id and id not in self.known:
            segment = self.broadcast if id == self.broadcast.id else self._catalog.segment(id)
            if segment is not None:
                self.by_id[id] = self.known[id] = self.following(segment)
        return super()._segment(id)

    @property
    def live(self) -> list[Segment]:
        """Those that are still there, by id."""
        return [each for _, each in sorted(self.known.items()) if not each.deleted and not each.published]

    @property
    def dropped(self) -> list[tuple[int]]:
        """Those that are not, and that others may know of."""
        gone = [each.id for each in self.known.values() if each.deleted or each.published]
        return [(id,) for id in sorted(gone) if id not in self.created]

    @property
    def moves(self) -> list[tuple[int, ...]]:
        """What became of segments that were published, where packs have records of theirs."""
        return [(*each, number) for each in self.moved for number in self._catalog.packs_of(each.source)]
