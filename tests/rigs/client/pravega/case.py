"""Clients of Pravega on a store with one segment."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from streamd.client.asynchronous import PravegaClient, Reader, Writer
from streamd.client.pravega.writer import WriterOptions
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.protocols.pravega.protocol import PravegaFactory, PravegaSettings
from tests.rigs.client.rig import WHOLE, ClientCase, Driven

WRITER = UUID(int=7)


class PravegaCase(ClientCase):
    def make_factory(self, core: Core) -> StreamFactory:
        return PravegaFactory(core, PravegaSettings())

    def setUp(self) -> None:
        super().setUp()
        self.driven = self.drive(PravegaClient)
        self.driven.run(self.driven.client.create("s"))

    def reader(self, offset: int = 0, *, wait: bool = False, piece_bytes: int = WHOLE) -> Driven[Reader]:
        def make(*args: Any, **options: Any) -> Reader:
            return PravegaClient(*args, **options).reader("s", offset, wait=wait)

        return self.drive(make, piece_bytes)

    def writer(self, segment: str = "s", **options: Any) -> Driven[Writer]:
        """A writer, with one id where no other is given."""
        chosen: WriterOptions = {"writer_id": WRITER, **options}  # type: ignore[typeddict-item]

        def make(*args: Any, **options: Any) -> Writer:
            return PravegaClient(*args, **options).writer(segment, **chosen)

        return self.drive(make)

    def write(self, events: list[bytes], **options: Any) -> Driven[Writer]:
        """A writer that has written these, which are on disk."""
        writer = self.writer(**options)
        writer.run(writer.client.write(events))
        writer.run(writer.client.flush())
        return writer

    def stored(self) -> list[bytes]:
        """All events of the segment."""
        return self.events(self.reader())

    def events(self, reader: Driven[Reader]) -> list[bytes]:
        """The events that a reader gives until it stops."""
        return reader.everything(reader.client)
