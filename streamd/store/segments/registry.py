"""All segments, and the one place where an entry that is on disk takes effect.

A commit that has just been written and a replayed journal both come through `Segments.apply`: what was served before a
crash and what is served after it are the same by construction.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from struct import iter_unpack
from typing import Final

from streamd.batch import Buffer
from streamd.store.errors import BadEntry
from streamd.store.journal.frame import Header, Kind, decode_keyed
from streamd.store.records.extent import PUBLISHED, Extent
from streamd.store.segments.broadcasts import BROADCASTS, Broadcast, Numbered, new_segment
from streamd.store.segments.segment import Segment

# Ids that may be kept of segments that are gone, beside as many as there are others.
_GONE_MAX: Final = 1000


class Segments:
    """Segments by id and by name, as committed."""

    def __init__(self) -> None:
        self.by_id: dict[int, Segment] = {}
        self.ids: list[int] = []
        """Those of `by_id`, ascending, and some that are gone: `adopt` drops these when they are many."""
        self.by_name: dict[str, Segment] = {}
        self.numbered: dict[str, Numbered] = {}
        """Those of `by_name` whose name is a number behind a prefix: some protocols want all of these at once."""
        self.receiving: set[Numbered] = set()
        """Those of them that are not sealed, and so receive broadcasts."""
        self.hidden: dict[str, Segment] = {}
        """Hidden segments, which have names of their own."""
        self.grouped: set[Segment] = set()
        """Those that have reader groups."""
        self.broadcast = Broadcast()
        """What goes to all numbered segments."""
        self.listening: set[Segment] = set()
        """Those of them at whose end somebody waits, or has waited."""
        self.published_in: dict[int, list[Segment]] = {}
        """For each journal file, the hidden segments that it published: a fold makes their records the target's."""
        self.claimed: dict[int, Segment] = {}
        """Segments whose creation is pending: the objects that their creators hold already."""
        self.woken: list[Segment] = []
        """Segments that changed while somebody waited for that. Whoever calls `apply` takes them from here."""
        self.by_file: dict[int, set[Segment]] = {}
        """For each journal file, the segments that have records in it: those that a fold of it concerns."""
        self.entries_in: dict[int, int] = {}
        """For each journal file that is not folded, how many entries of it are in memory."""
        self.bytes_in: dict[int, int] = {}
        """And how many bytes they hold."""
        self._payload: tuple[Header, int] | None = None
        self.timestamp = 0
        """That of the last entry that took effect."""

    def apply(
        self, header: Header, sequence: int, timestamp: int, file: int, position: int, body: Buffer = b""
    ) -> None:
        """Let one entry take effect. `position` is where its body stands in `file`."""
        kind = header.kind
        self.timestamp = timestamp
        self.entries_in[file] = self.entries_in.get(file, 0) + 1
        self.bytes_in[file] = self.bytes_in.get(file, 0) + header.length
        if kind == Kind.APPEND:
            self._append(self._segment(header.segment), header, timestamp, file, position)
        elif kind == Kind.PAYLOAD:
            self._payload = (header, position)
        elif kind == Kind.FANOUT:
            if self._payload is None:
                raise BadEntry("a fan-out without its payload")
            payload, place = self._payload
            # Each is a row in memory.
            self.entries_in[file] += len(body) // 8
            if 4 * payload.count > payload.length:
                raise BadEntry(f"{payload.count} records in {payload.length} bytes")
            for (id,) in iter_unpack("<Q", body):
                segment = self._segment(id)
                self._add(segment, payload, segment.number, segment.offset, timestamp, file, place)
        elif kind == Kind.CREATE:
            self._create(header, sequence, timestamp, str(body, "utf-8"))
        elif kind == Kind.PUBLISH:
            self._publish(header, timestamp, file, int.from_bytes(body, "little"))
        elif kind == Kind.LEFT_OUT:
            self._leave_out(header, file, body)
        else:
            segment = self._segment(header.segment)
            if kind == Kind.SEAL and isinstance(segment, Numbered):
                segment.freeze(file)
                self.receiving.discard(segment)
                self.by_file.setdefault(file, set()).add(segment)
            if segment is not self.broadcast:
                # For those who follow it, this is when something was last broadcast.
                segment.modified = timestamp
            self._change(segment, header, body)
            if segment.waiters:
                self.woken.append(segment)

    def _segment(self, id: int) -> Segment:
        try:
            return self.by_id[id]
        except KeyError:
            raise BadEntry(f"segment {id} does not exist") from None

    def _append(self, segment: Segment, header: Header, timestamp: int, file: int, position: int) -> None:
        if header.number != segment.number or header.offset != segment.offset:
            raise BadEntry(
                f"segment {segment.id} goes on at record {segment.number}, offset {segment.offset}, "
                f"not at {header.number}, {header.offset}"
            )
        if 4 * header.count > header.length:
            raise BadEntry(f"{header.count} records in {header.length} bytes, which do not even hold their lengths")
        self._add(segment, header, header.number, header.offset, timestamp, file, position)

    def _add(
        self, segment: Segment, body: Header, number: int, offset: int, timestamp: int, file: int, position: int
    ) -> None:
        """Records that stand there, in an entry of the segment's own or in one that many segments share."""
        segment.appended(Extent(number, offset, timestamp, file, position, body.length, body.count, body.crc, body.tag))
        self.by_file.setdefault(file, set()).add(segment)
        if segment.waiters:
            self.woken.append(segment)
        if segment is self.broadcast and self.listening:
            self.listening = {each for each in self.listening if each.waiters}
            self.woken += self.listening

    def _leave_out(self, header: Header, file: int, body: Buffer) -> None:
        self.entries_in[file] += len(body) // 8
        for (id,) in iter_unpack("<Q", body):
            segment = self._segment(id)
            if not isinstance(segment, Numbered) or self.broadcast.number - header.number < segment.seen_number:
                raise BadEntry(f"segment {id} can't be left out of a broadcast")
            segment.leave_out(file, header.number, header.offset)
            self.by_file.setdefault(file, set()).add(segment)

    def _create(self, header: Header, sequence: int, timestamp: int, name: str) -> None:
        if header.segment != sequence:
            raise BadEntry(f"segment {header.segment} is created at sequence {sequence}")
        segment = self.claimed.pop(sequence, None)
        if header.count == BROADCASTS:
            segment = self.broadcast
            segment.id = sequence
        elif segment is None:
            segment = new_segment(sequence, name, self.broadcast, hidden=bool(header.count))
        if isinstance(segment, Numbered):
            segment.join(self.broadcast)
        segment.created = segment.modified = timestamp
        self.adopt(segment)

    def load(self, segments: Iterable[Segment]) -> None:
        """Take up what the catalog knows, the broadcast segment first."""
        for segment in segments:
            if isinstance(segment, Broadcast):
                self.broadcast = segment
            self.adopt(self.following(segment))

    def following(self, segment: Segment) -> Segment:
        """A segment as the catalog has it, which receives broadcasts where it should."""
        if isinstance(segment, Numbered) and not segment.sealed:
            segment.follow(self.broadcast)
        return segment

    def adopt(self, segment: Segment) -> None:
        """Take a segment up: one that was created, or one that the catalog knows."""
        segment.committed = True
        self.by_id[segment.id] = segment
        # Mostly the last one: ids count up.
        insort(self.ids, segment.id)
        if len(self.ids) > 2 * len(self.by_id) + _GONE_MAX:
            self.ids = sorted(self.by_id)
        if segment is self.broadcast:
            return
        # A segment that is deleted later in the same frame may still have the name: the newer one wins.
        self.names_of(segment)[segment.name] = segment
        if segment.groups:
            self.grouped.add(segment)
        if isinstance(segment, Numbered):
            self.numbered[segment.name] = segment
            if not segment.sealed:
                self.receiving.add(segment)

    def drop_files(self, file: int) -> list[int]:
        """Do not count journal files up to this one any more; returns which those were."""
        gone = [number for number in self.entries_in if number <= file]
        for number in gone:
            del self.entries_in[number], self.bytes_in[number]
        return gone

    def take_folded(self, file: int) -> tuple[set[Segment], list[Segment]]:
        """The segments that have records in journal files up to this one, and those which these files published.

        Both are forgotten here: whoever calls this tells the first ones, and then drops the others.
        """
        concerned: set[Segment] = set()
        sources: list[Segment] = []
        for number in [each for each in self.by_file if each <= file]:
            concerned |= self.by_file.pop(number)
        for number in [each for each in self.published_in if each <= file]:
            sources += self.published_in.pop(number)
        return concerned, sources

    def names_of(self, segment: Segment) -> dict[str, Segment]:
        """Where the name of such a segment is looked up."""
        return self.hidden if segment.hidden else self.by_name

    def _publish(self, header: Header, timestamp: int, file: int, id: int) -> None:
        target, source = self._segment(header.segment), self._segment(id)
        if header.number != target.number or header.offset != target.offset or not source.hidden or target.hidden:
            raise BadEntry(f"segment {id} can't be published into {target.id} at record {header.number}")
        source.sealed = source.published = True
        if self.hidden.get(source.name) is source:
            del self.hidden[source.name]
        self.published_in.setdefault(file, []).append(source)
        if source.number:
            extent = Extent(header.number, header.offset, timestamp, file, source.id, 0, source.number, 0, PUBLISHED)
            target.took(source, extent, header.offset + source.offset)
            self.by_file.setdefault(file, set()).add(target)
        if target.waiters:
            self.woken.append(target)

    def _change(self, segment: Segment, header: Header, body: Buffer) -> None:
        kind = header.kind
        if kind == Kind.DELETE:
            segment.deleted = True
            segment.index = None
            self.grouped.discard(segment)
            del self.by_id[segment.id]
            if isinstance(segment, Numbered):
                self.receiving.discard(segment)
            names = self.names_of(segment)
            if names.get(segment.name) is segment:
                del names[segment.name]
                self.numbered.pop(segment.name, None)
        elif kind == Kind.SEAL:
            segment.sealed = True
        elif kind == Kind.TRUNCATE:
            segment.truncated(header.number, header.offset)
        elif kind == Kind.LEVEL:
            segment.set_level(header.writer, header.level)
        elif kind == Kind.GROUP_SET:
            segment.set_group(str(body, "utf-8"), header.number)
            self.grouped.add(segment)
        elif kind == Kind.GROUP_ACK:
            name, rest = decode_keyed(body)
            segment.group(name.decode()).add(iter_unpack("<QQ", rest))
            self.grouped.add(segment)
        elif kind == Kind.GROUP_DROP:
            if segment.groups is not None:
                segment.groups.pop(str(body, "utf-8"), None)
            if not segment.groups:
                self.grouped.discard(segment)
        elif kind == Kind.ATTRIBUTE:
            key, value = decode_keyed(body)
            segment.set_attribute(key, value if header.count else None)
        else:
            raise BadEntry(f"entry kind {kind} is not known to this version")
