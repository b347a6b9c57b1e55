"""Requests about Pravega's table segments: what they do to a table, and what is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred

from streamd.access.permits import ADMIN, READ, WRITE
from streamd.connections.base import Reply
from streamd.connections.core import Core
from streamd.protocols.pravega.reading import TailReading
from streamd.protocols.pravega.tables import BadVersion, Table, Tables
from streamd.wire.pravega import replies
from streamd.wire.pravega import tables as wire
from streamd.wire.pravega.today import DATA, named

# Entries of one answer.
_PAGE_MAX: Final = 10_000


class TableRequests:
    """Carries out the table requests of one connection, as far as the peer may."""

    def __init__(self, core: Core, peer: TailReading) -> None:
        self._store = core.store
        self._tables = Tables.of(core)
        self._peer = peer

    def perform(self, request: Any) -> Reply:
        """Do what is asked."""
        if isinstance(request, wire.CreateTable):
            self._peer.allow_create(request.name)
            reply = named(replies.SEGMENT_CREATED, request.id, request.name)
            return self._tables.create(request.name), reply
        right, action = _ACTIONS[type(request)]
        self._peer.allow(right, request.name)
        table = self._tables.loaded(request.name)
        if isinstance(table, Table):
            return self._do(action, request, table)
        return table.addCallback(lambda loaded: _waited(self._do(action, request, loaded)))

    def _do(self, action: _Action, request: Any, table: Table) -> Reply:
        try:
            return action(self, request, table)
        except BadVersion:
            return wire.refused(wire.BAD_VERSION, request.id, request.name)

    def _update(self, request: wire.UpdateTable, table: Table) -> Reply:
        self._peer.allow_more(table.segment, request.size)
        stored, versions = table.update(request.entries, request.offset)
        return stored, wire.updated(request.id, versions)

    def _remove(self, request: wire.RemoveKeys, table: Table) -> Reply:
        return table.remove(request.keys, request.offset), wire.removed(request.id, request.name)

    def _delete(self, request: wire.DeleteTable, table: Table) -> Reply:
        if request.if_empty and len(table):
            return wire.refused(wire.NOT_EMPTY, request.id, request.name)
        return self._store.delete(table.segment), named(31, request.id, request.name)

    def _info(self, request: wire.GetTableInfo, table: Table) -> Reply:
        segment = table.segment
        return wire.table_info(request.id, request.name, segment.first_offset, segment.offset, len(table))

    def _read(self, request: wire.ReadTable, table: Table) -> Reply:
        async def read() -> bytes:
            return wire.entries(79, request.id, request.name, await table.get(request.keys))

        return _soon(read())

    def _keys(self, request: wire.ReadKeys, table: Table) -> Reply:
        async def read() -> bytes:
            found, after = await self._walk(request, table)
            return wire.keys_read(request.id, request.name, [entry.key for entry in found], after)

        return _soon(read())

    def _entries(self, request: wire.ReadEntries, table: Table) -> Reply:
        async def read() -> bytes:
            found, after = await self._walk(request, table)
            return wire.entries(86, request.id, request.name, found, (DATA, after))

        return _soon(read())

    async def _walk(self, request: wire.ReadKeys, table: Table) -> tuple[list[wire.Entry], bytes]:
        """The next entries that count, in the order in which they were put, and where to go on."""
        position = int.from_bytes(request.after)
        while True:
            found = await table.scan(position, min(request.count, _PAGE_MAX))
            entries = [entry for entry in found.entries if table.holds(entry)]
            if entries or found.at_end:
                return entries, found.position.to_bytes(8)
            position = found.position

    def _delta(self, request: wire.ReadDelta, table: Table) -> Reply:
        async def read() -> bytes:
            found = await table.scan(request.position, min(request.count, _PAGE_MAX))
            return wire.delta(request.id, request.name, found.entries, found.is_new, found.at_end, found.position)

        return _soon(read())


def _soon(reading: Any) -> Deferred[bytes]:
    return Deferred.fromCoroutine(reading)


def _waited(reply: Reply) -> Any:
    """A reply as what a callback may return."""
    if isinstance(reply, tuple):
        done, answer = reply
        return done.addCallback(lambda _: answer)
    return reply


_Action = Callable[[TableRequests, Any, Table], Reply]

_ACTIONS: Final[dict[type, tuple[int, _Action]]] = {
    wire.UpdateTable: (WRITE, TableRequests._update),
    wire.RemoveKeys: (WRITE, TableRequests._remove),
    wire.DeleteTable: (ADMIN, TableRequests._delete),
    wire.GetTableInfo: (READ, TableRequests._info),
    wire.ReadTable: (READ, TableRequests._read),
    wire.ReadKeys: (READ, TableRequests._keys),
    wire.ReadEntries: (READ, TableRequests._entries),
    wire.ReadDelta: (READ, TableRequests._delta),
}
