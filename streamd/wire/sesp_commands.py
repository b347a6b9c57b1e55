"""The commands of SESP, as `streamd.wire.sesp` reads them from lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from streamd.batch import Batch

OFFSET_END: Final = 1 << 63
"""Offsets are below this."""


class Command:
    """A request of SESP."""

    __slots__ = ("count", "size")
    reads: ClassVar[bool] = False

    def __init__(self, size: int, count: int = 1) -> None:
        self.size = size
        self.count = count
        """How many lines it stands for, and so how many replies it gets."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in _fields(type(self)))})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in _fields(type(self))
        )

    __hash__ = None  # type: ignore[assignment]


def _fields(command: type) -> list[str]:
    return [name for each in command.__mro__ for name in getattr(each, "__slots__", ()) if name != "size"]


class Publish(Command):
    """``>message``, as often as the batch has records."""

    __slots__ = ("batch",)

    def __init__(self, batch: Batch) -> None:
        # Without a call of the base class: this is made for every message.
        self.count = count = len(batch.lengths)
        self.size = len(batch.payload) + 4 * count
        self.batch = batch


class PublishOnce(Command):
    """``^writer sequence message``: message number `sequence` of a writer, which is stored once."""

    __slots__ = ("batch", "sequence", "writer")

    def __init__(self, writer: str, sequence: int, batch: Batch) -> None:
        super().__init__(128 + batch.size)
        self.writer = writer
        self.sequence = sequence
        self.batch = batch


class AskSequence(Command):
    """``^writer`` alone: how many messages of this writer the topic has stored."""

    __slots__ = ("writer",)
    reads = True

    def __init__(self, writer: str) -> None:
        super().__init__(128)
        self.writer = writer


class PublishLater(Command):
    """``~milliseconds message``: becomes visible so many milliseconds after 1970 or, behind a plus sign, from now."""

    __slots__ = ("batch", "is_relative", "milliseconds")

    def __init__(self, milliseconds: int, batch: Batch, *, is_relative: bool) -> None:
        super().__init__(128 + batch.size)
        self.milliseconds = milliseconds
        self.is_relative = is_relative
        self.batch = batch


class Read(Command):
    """``<``, `count` times."""

    __slots__ = ()
    reads = True

    def __init__(self, count: int) -> None:
        super().__init__(64, count)


class Named(Command):
    """A command with a topic's name behind it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__(64 + len(name))
        self.name = name


class Create(Named):
    """``#topic``"""

    __slots__ = ()


class Delete(Named):
    """``!topic``. It looks the topic up, so it waits for what was written before."""

    __slots__ = ()
    reads = True


class Select(Named):
    """``@topic``"""

    __slots__ = ()
    reads = True


class Seal(Named):
    """``=topic``"""

    __slots__ = ()
    reads = True


class Describe(Named):
    """``?topic``"""

    __slots__ = ()
    reads = True


class List(Command):
    """``?`` alone; of an answer in progress `names` are all and `done` how many of them are done with.

    Some may not be for this peer: whether any has been told is `begun`.
    """

    __slots__ = ("begun", "done", "names")
    reads = True

    def __init__(self, names: Sequence[str] | None = None, done: int = 0, begun: bool = False) -> None:
        super().__init__(64)
        self.names = names
        self.done = done
        self.begun = begun


class Status(Command):
    """``&``"""

    __slots__ = ()
    reads = True

    def __init__(self) -> None:
        super().__init__(64)


class Seek(Command):
    """``$offset``; it may be negative, and is refused then."""

    __slots__ = ("offset",)

    def __init__(self, offset: int) -> None:
        super().__init__(64)
        self.offset = offset


class Truncate(Seek):
    """``%offset``"""

    __slots__ = ()
    reads = True


class Refused(Command):
    """A line that is no command; `error` is the name to answer with."""

    __slots__ = ("error",)

    def __init__(self, error: str) -> None:
        super().__init__(64)
        self.error = error
