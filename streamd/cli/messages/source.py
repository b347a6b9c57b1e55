"""Where a command that only reads finds topics: a daemon, or the files of a store."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from streamd.cli.command import UNAVAILABLE, CommandError, explained
from streamd.cli.connect import about, add_server_options, storage
from streamd.cli.show import say

if TYPE_CHECKING:
    from streamd.client.blocking import StorageClient
    from streamd.store.reading import outside
    from streamd.store.reading import plan as read
    from streamd.wire import tools as wire

    Info = outside.SegmentInfo | wire.SegmentInfo
    Run = read.Run | wire.Run


T = TypeVar("T")

_DELAY_SECONDS_FIRST: Final = 0.1
_DELAY_SECONDS_MAX: Final = 2.0


class Source(Protocol):
    """Topics and their records, as of the last `refresh` or later."""

    def refresh(self) -> None:
        """See what has come since."""

    def segments(self) -> Sequence[Info]:
        """All of them; hidden ones are not listed."""

    def segment(self, which: str | int) -> Info:
        """One of them."""

    def number_at(self, which: int, timestamp: int, /) -> int:
        """The first record of this time (microseconds since 1970) or later; the next number where none is."""

    def read(self, which: int, first: int, end: int | None = None, /) -> Iterator[Run]:
        """Records `first` to `end` (not included; None: all there are now)."""


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that only reads."""
    add_server_options(parser)
    parser.add_argument("--path", metavar="DIR", help="read the files of this store, whether a daemon runs or not")


@contextmanager
def source(options: argparse.Namespace) -> Iterator[Source]:
    """The files, where a path is given; else the daemon."""
    if options.path is None:
        with storage(options) as client:
            yield _Daemon(client)
        return
    from streamd.store.reading.outside import OutsideReader

    with readable(), OutsideReader(options.path) as reader:
        yield reader


@contextmanager
def readable(target: str | None = None) -> Iterator[None]:
    """What is wrong with a store's files becomes one line with what to do next. `target` is where is written to."""
    from streamd.store.errors import NoSuchSegment, NotAStore, ReadFailed, RecordsTruncated, StoreError, StoreUnusable

    try:
        yield
    except BrokenPipeError:
        # Not the store: whoever reads what is printed has left.
        raise
    except NoSuchSegment as error:
        raise CommandError(f"{error}: there is no such topic: 'streamctl topics' with the same --path lists them")
    except RecordsTruncated as error:
        raise CommandError(
            f"these messages are gone; the first that is there is {error.first_number}: give --from 'first'"
        )
    except NotAStore as error:
        if isinstance(error.__cause__, PermissionError):
            raise CommandError(explained(error.__cause__))
        raise CommandError(f"{error}. Give the data directory of a daemon as --path")
    except ReadFailed as error:
        raise CommandError(f"{error}: 'streamctl verify' finds all that is damaged")
    except OSError as error:
        # One that names no file came from a write.
        where = f"{target}: " if error.filename is None and target is not None else ""
        raise CommandError(where + explained(error))
    except (StoreError, StoreUnusable) as error:
        if isinstance(error.__cause__, PermissionError):
            raise CommandError(explained(error.__cause__))
        raise CommandError(str(error))


class _Daemon:
    """A client as a source: it always tells what is there now."""

    def __init__(self, client: StorageClient) -> None:
        self.segments = client.segments
        self._segment = client.segment
        self.number_at = client.number_at
        self.read = client.read

    def segment(self, which: str | int) -> Info:
        """One of them."""
        with about(which) if isinstance(which, str) else nullcontext():
            return self._segment(which)

    def refresh(self) -> None:
        """Nothing is kept here."""


def reconnecting(options: argparse.Namespace, use: Callable[[Source], Iterator[T]]) -> Iterator[T]:
    """Yield what `use` yields of a source, and again of a new connection where the daemon is restarted meanwhile.

    The first connection has to work: an address where nothing is would be waited for in vain.
    """
    delay, met = _DELAY_SECONDS_FIRST, False
    while True:
        try:
            with source(options) as found:
                for each in use(found):
                    delay, met = _DELAY_SECONDS_FIRST, True
                    yield each
                return
        except CommandError as error:
            if not met or error.status != UNAVAILABLE:
                raise
            if delay == _DELAY_SECONDS_FIRST:
                say("the connection is lost, and made again when the daemon is there; Ctrl-C ends")
        time.sleep(delay)
        delay = min(2 * delay, _DELAY_SECONDS_MAX)
