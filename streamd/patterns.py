"""Shell patterns for whole names (``*``, ``?``, ``[a-z]``, ``[!a-z]``), matched in a time linear in the name's length.

They mean what those of `fnmatch` mean. Those become regular expressions, though, and one of two hundred characters can
be made to look at every character of a name a hundred times. A pattern may come from a peer, and there may be a million
names, so here it is one step for each character whatever the pattern is, or fewer where the pattern is plain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final

Fits = Callable[[str], bool]
"""A predicate on names: whether a pattern matches."""

_STAR: Final = "*"
_ANY: Final = "?"
_SPECIAL: Final = frozenset("*?[")

# Characters that one pattern remembers; a name of others costs more.
_REMEMBERED_MAX: Final = 1024


def matcher(pattern: str) -> Fits:
    """A predicate on names: whether the pattern matches."""
    if not _SPECIAL.intersection(pattern):
        return pattern.__eq__
    first, *others = pattern.split(_STAR)
    if _SPECIAL.intersection("".join((first, *others))):
        return _Automaton(pattern).fits
    if others == [""]:
        return lambda name: name.startswith(first)
    return _Pieces(first, others[:-1], others[-1]).fits


def any_matcher(patterns: Iterable[str]) -> Fits:
    """A predicate on names: whether one of the patterns matches."""
    several = set(patterns)
    if len(several) == 1:
        return matcher(several.pop())
    # Most patterns are names, or what names begin with: all of these together cost no more than one.
    names = frozenset(pattern for pattern in several if not _SPECIAL.intersection(pattern))
    begins = tuple(
        pattern[:-1] for pattern in several if pattern.endswith(_STAR) and not _SPECIAL.intersection(pattern[:-1])
    )
    others = [matcher(pattern) for pattern in several - names - {f"{begin}{_STAR}" for begin in begins}]
    return lambda name: name in names or name.startswith(begins) or any(fits(name) for fits in others)


class _Pieces:
    """A pattern of plain text and stars: each piece is searched for behind the one before."""

    def __init__(self, begin: str, middle: list[str], end: str) -> None:
        self._begin = begin
        self._middle = [piece for piece in middle if piece]
        self._end = end

    def fits(self, name: str) -> bool:
        """Whether the pattern matches this name."""
        at, end = len(self._begin), len(name) - len(self._end)
        if at > end or not name.startswith(self._begin) or not name.endswith(self._end):
            return False
        for piece in self._middle:
            place = name.find(piece, at, end)
            if place < 0:
                return False
            at = place + len(piece)
        return True


class _Automaton:
    """Any pattern, as a nondeterministic automaton whose states are the bits of one number.

    Bit n is set where the first n items, each of which is for one character, match all characters so far.
    """

    def __init__(self, pattern: str) -> None:
        self._stars = 0
        """The states that a star follows, as bits."""
        items: list[str] = []
        for item in _items(pattern):
            if item == _STAR:
                self._stars |= 1 << len(items)
            else:
                items.append(item)
        self._fitting = _Fitting(items)
        self._whole = 1 << len(items)

    def fits(self, name: str) -> bool:
        """Whether the pattern matches this name."""
        state, stars, fitting = 1, self._stars, self._fitting
        for character in name:
            state = (state & fitting[character]) << 1 | state & stars
            if not state:
                return False
        return bool(state & self._whole)


class _Fitting(dict[str, int]):
    """For a character, the items of a pattern that match it, as bits; computed on first use."""

    def __init__(self, items: list[str]) -> None:
        super().__init__()
        self._items: dict[str, int] = {}
        for at, item in enumerate(items):
            self._items[item] = self._items.get(item, 0) | 1 << at

    def __missing__(self, character: str) -> int:
        fitting = self._items.get(_ANY, 0)
        for item, bits in self._items.items():
            # The brackets are left to `fnmatch`, one at a time: what they may hold has many exceptions.
            if item == character or (len(item) > 1 and fnmatchcase(character, item)):
                fitting |= bits
        if len(self) < _REMEMBERED_MAX:
            self[character] = fitting
        return fitting


def _items(pattern: str) -> Iterator[str]:
    """The items of a pattern: stars, question marks, brackets and characters."""
    at = 0
    while at < len(pattern):
        end = at + 1
        if pattern[at] == "[":
            # A bracket that stands first is part of what is meant, and one that is never closed is a character.
            first = end + 1 if pattern[end : end + 1] == "!" else end
            closing = pattern.find("]", first + 1)
            end = closing + 1 if closing > 0 else end
        yield pattern[at:end]
        at = end
