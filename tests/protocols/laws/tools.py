"""The messages for tools, on Pravega's port, for the law on what can't be read."""

from __future__ import annotations

from collections.abc import Sequence

from streamd.wire import tools as storage
from streamd.wire.client.tools import StorageReplies, request_bytes
from streamd.wire.tools import Code
from tests.protocols.laws.description import Exchange
from tests.protocols.laws.pravega import Pravega

_SEGMENT = 1
"""The number of the first segment that is made in a store."""


class Tools(Pravega):
    """They read records by number; each is asked for by itself."""

    def fetch(self, records: Sequence[bytes]) -> Exchange:
        asked = [storage.ReadRecords(number, _SEGMENT, number, 1, 1) for number in range(len(records))]
        return Exchange(b"".join(map(request_bytes, asked)), b"")

    def read(self, told: bytes) -> dict[int, list[bytes] | Code]:
        """The answers by number: records, or why there are none."""
        codec = StorageReplies(1 << 20)
        found: dict[int, list[bytes] | Code] = {}
        for reply in codec.receive(told):
            if isinstance(reply, storage.RecordsRead):
                found[reply.id] = [bytes(record) for run in reply.runs for record in run.batch.records()]
            else:
                assert isinstance(reply, storage.Refusal), reply
                found[reply.id] = Code(reply.code)
        return found

    def is_fetched(self, records: Sequence[bytes], told: bytes) -> bool:
        return self.read(told) == {number: [record] for number, record in enumerate(records)}

    def is_unread(self, records: Sequence[bytes], bad: int, told: bytes, closed: bool) -> bool:
        found = self.read(told)
        right = all(found.get(number) in ([record], Code.READ_FAILED) for number, record in enumerate(records))
        return not closed and right and found[bad] == Code.READ_FAILED and len(found) == len(records)
