"""What is fuzzed: by name, what checks an input, and where the fuzzer begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from fuzz import files
from fuzz.law import uncut
from fuzz.wires import TRANSCRIPTS, WIRES

# A transcript whole, and cut where the pieces are of different sizes.
_CUTS: Final = ((), (1, 7, 30, 31, 200))


class Check(Protocol):
    """Tries an input; `is_traced`: with an eye on the memory that it takes."""

    def __call__(self, data: bytes, is_traced: bool = True) -> None: ...


class Target(NamedTuple):
    """A decoder under its laws."""

    check: Check
    """Raises where a law is broken."""
    seeds: Callable[[], Sequence[bytes]]


def _wire(name: str) -> Target:
    return Target(WIRES[name].check, lambda: [uncut(data, cuts) for data in TRANSCRIPTS[name] for cuts in _CUTS])


TARGETS: Final[dict[str, Target]] = {
    **{name: _wire(name) for name in WIRES},
    "journal": Target(files.check_journal, files.journal_seeds),
    "pack": Target(files.check_pack, files.pack_seeds),
}
