"""The file system of an archive: whole files that appear under their names at once, and are on disk when they do.

Two kinds: `archive_arrow` for local files and S3, which tasks reach too, and `archive_hadoop` for all others that
Spark reaches, which are written by Spark itself. `archive_location` chooses.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote

# What Hive and Spark write as it is in a directory such as topic=NAME, beside letters and digits.
_PLAIN: Final = " !$&()+,-.;<>@_`|~"


class ArchiveError(Exception):
    """An archive that can't be used, or not be gone on with. The text says what to do."""


class Location(NamedTuple):
    """Where an archive is, as tasks are told."""

    uri: str
    settings: tuple[tuple[str, Any], ...] = ()
    """What it takes to get there, in Arrow's words; there are keys among it."""

    def encoded(self) -> str:
        """As text, for an option of a source."""
        return json.dumps(self)

    @classmethod
    def decoded(cls, text: str) -> Self:
        """Out of that text."""
        uri, settings = json.loads(text)
        return cls(uri, tuple((name, value) for name, value in settings))


class Files(ABC):
    """All files below one URI. Paths are relative to it."""

    uri: str
    location: Location

    def url(self, path: str) -> str:
        """The name of a file for Spark."""
        return f"{self.uri}/{path}"

    @abstractmethod
    def names(self, directory: str) -> list[str]:
        """The files and directories in a directory, sorted; none where it is not there."""

    @abstractmethod
    def size(self, path: str) -> int:
        """The bytes of a file."""

    @abstractmethod
    def rows(self, path: str) -> int | None:
        """How many rows a Parquet file has; None where it is not there, or not whole."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """What a small file holds; FileNotFoundError."""

    @abstractmethod
    def create(self, path: str, data: bytes) -> None:
        """Make a small file that is not there yet; FileExistsError where it is."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""

    def sweep(self, path: str) -> None:
        """Delete what somebody left who was killed before a file had its name."""
        directory, _, name = path.rpartition("/")
        for each in self.names(directory):
            if each.startswith(temporary(name)):
                self.delete(f"{directory}/{each}")


def partition(column: str, value: str) -> str:
    """The directory of a value of a partition column, as Spark writes and reads it."""
    # Spark takes %XX for a character of its own: what is not ASCII stays as it is.
    return f"{column}={''.join(quote(each, safe=_PLAIN) if each.isascii() else each for each in value)}"


def temporary(name: str) -> str:
    """How a file is called before it is whole; Spark overlooks such names. Something of its own follows."""
    return f".{name}."
