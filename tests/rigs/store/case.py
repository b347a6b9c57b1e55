"""A test case with a store on a simulated disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.settings import StoreSettings
from streamd.store import Run, Segment
from streamd.store.journal.frame import FILE_HEADER, FileHeader, decode_file_header
from streamd.store.journal.scan import Frame, Scanner
from tests.rigs.store.inline import JOURNAL, InlineWriter, call, open_inline, read_all, result_of
from tests.rigs.store.simulated import SimulatedDisk

T = TypeVar("T")

ROOMY = StoreSettings(journal_file_bytes=1 << 20, reserve_bytes=1 << 16, open_files_max=4)


class StoreCase(SynchronousTestCase):
    """Opens a store, and knows how to look at it and at its files."""

    settings = ROOMY
    writer: InlineWriter

    def setUp(self) -> None:
        self.disk = SimulatedDisk()
        self.clock = Clock()
        self.open()

    def open(self) -> None:
        """Open the store as it is on the disk."""
        self.store, self.writer = open_inline(self.disk, self.settings, clock=self.clock)

    def reopen(self) -> None:
        """Close the store in order, and open it again."""
        self.close()
        self.open()

    def close(self) -> None:
        """Close the store in order."""
        self.writer.run()
        result_of(self.store.close())

    def kill(self) -> None:
        """Open the store again without having closed it."""
        self.disk = self.disk.kill()
        self.open()

    def do(self, operation: Callable[..., Deferred[T]], *args: Any, **keywords: Any) -> T:
        """Ask for something, write what is pending, and give the answer."""
        return call(self.writer, operation, *args, **keywords)

    def create(self, *names: str) -> list[Segment]:
        """New segments."""
        return [self.do(self.store.create, name) for name in names]

    def append(self, segment: Segment, *records: bytes, **keywords: Any) -> Any:
        """Append records, and wait for it."""
        return self.do(self.store.append, segment, Batch.of(records), **keywords)

    def records(self, segment: Segment | str) -> list[bytes]:
        """All that can be read of a segment."""
        if isinstance(segment, str):
            segment = self.store.find(segment)
        return [bytes(record) for run in read_all(self.store, segment) for record in run.batch.records()]

    def runs(self, name: str) -> list[Run]:
        """All that can be read of a segment, with tags and times."""
        return read_all(self.store, self.store.find(name))

    def refuses(self, error: type[T], operation: Callable[..., Deferred[Any]], *args: Any, **keywords: Any) -> T:
        """The error that an operation raises, or fails with."""
        caught: T = self.assertRaises(error, lambda: self.do(operation, *args, **keywords))
        return caught

    # -- the files -----------------------------------------------------------------------------------------------------

    def files(self) -> list[str]:
        """The paths of the journal's files."""
        names = self.disk.list_directory(JOURNAL)
        return [f"{JOURNAL}/{name}" for name in names if name.endswith(".journal")]

    def header(self, path: str) -> FileHeader:
        """The header of a journal file."""
        header = decode_file_header(self.disk.open(path, writable=False).read(0, FILE_HEADER.size))
        assert isinstance(header, FileHeader)
        return header

    def frames(self, path: str | None = None) -> list[Frame]:
        """The frames of a journal file, or of the last one."""
        path = path or self.files()[-1]
        return list(Scanner(self.disk.open(path, writable=False), self.header(path)).frames())


class Told:
    """Remembers what Deferreds fired with, in the order in which they did."""

    def __init__(self) -> None:
        self.results: list[tuple[Any, Any]] = []

    def when(self, name: Any, deferred: Deferred[Any]) -> None:
        """Remember the result of a Deferred under a name."""
        deferred.addBoth(lambda result: self.results.append((name, getattr(result, "value", result))))

    @property
    def names(self) -> list[Any]:
        """Who was told."""
        return [name for name, _ in self.results]
