"""What is in an archive of one topic: a file of JSON for each version, of which the last one counts.

::

    URI/topic=T/date=D/part-FIRST-END.parquet                  in place: there for good
    URI/_streamd/young/topic=T/date=D/part-FIRST-END.parquet   small ones, which wait to be put together
    URI/_streamd/manifests/topic=T/VERSION.json

A version appears at once and whole, and is never changed. It names every file that counts, with the records in it. One
with a `plan` says what is going to be written: whoever finds it last carries it out, or again, and writes the same
files. So a file holds the same records whoever writes it, and each record is in one file in place, at any moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from streamd.spark.archives.files import ArchiveError, Files, partition

FORMAT: Final = 1

_KEPT: Final = 8
"""So many versions stay: somebody may be about to read the one that was the last."""

_YOUNG: Final = "_streamd/young"
_MANIFESTS: Final = "_streamd/manifests"


@dataclass(frozen=True)
class File:
    """A file with the records `first` to `end` (not included) of one day."""

    path: str
    date: str
    first: int
    end: int
    rows: int
    """As many as there are from first to end, but for those that were lost in between."""
    bytes: int
    """Of the records, about; the file is smaller."""
    young: bool


@dataclass(frozen=True)
class Output:
    """A file to be written: the records of some young files, and behind them those from `live` on out of the store."""

    file: File
    young: tuple[File, ...]
    live: int


@dataclass(frozen=True)
class Retired:
    """A young file that does not count any more. It is deleted some time after `at`, in seconds since 1970."""

    path: str
    at: float


@dataclass(frozen=True)
class Manifest:
    """One version."""

    topic: str
    id: int
    created: int
    """The segment, by its id and when it was created: one of another store is told by that."""
    first: int
    """Where the archive begins."""
    end: int
    """Everything from `first` to here is archived, but for what is `lost`."""
    version: int = 0
    files: tuple[File, ...] = ()
    lost: tuple[tuple[int, int], ...] = ()
    """Records that were gone before they could be archived, as ranges."""
    retired: tuple[Retired, ...] = ()
    plan: tuple[Output, ...] = ()

    @property
    def young(self) -> list[File]:
        """The young files, in the order of their records."""
        return [file for file in self.files if file.young]

    def done(self, outputs: Iterable[Output], now: float) -> Manifest:
        """With the files of these outputs in it, in place of the young ones that went into them."""
        written = tuple(output.file for output in outputs)
        merged = {young.path for output in outputs for young in output.young}
        files = [file for file in self.files if file.path not in merged]
        return replace(
            self,
            files=tuple(sorted([*files, *written], key=lambda file: file.first)),
            end=max([self.end, *(file.end for file in written)]),
            retired=(*self.retired, *(Retired(path, now) for path in sorted(merged))),
            plan=(),
        )


def file_for(topic: str, date: str, first: int, end: int, rows: int, size: int, *, young: bool) -> File:
    """A file of these records; its name follows from them."""
    where = f"{partition('topic', topic)}/{partition('date', date)}"
    path = f"{where}/part-{first:020}-{end:020}.parquet"
    return File(f"{_YOUNG}/{path}" if young else path, date, first, end, rows, size, young)


def base(files: Files, *, young: bool) -> str:
    """Where the directories named by columns begin, for Spark."""
    return files.url(_YOUNG) if young else files.uri


class Manifests:
    """The versions of one topic."""

    def __init__(self, files: Files, topic: str) -> None:
        self._files = files
        self._topic = topic
        self._directory = f"{_MANIFESTS}/{partition('topic', topic)}"

    def last(self) -> Manifest | None:
        """The version that counts; None where the topic was never archived. ArchiveError where it can't be read."""
        names: list[str] = []
        while True:
            before, names = names, self._names()
            if not names:
                return None
            path = f"{self._directory}/{names[-1]}"
            try:
                return _decoded(path, self._files.read(path))
            except FileNotFoundError:
                # Versions came and went while we looked. Where none has come, something is wrong.
                if names == before:
                    raise

    def commit(self, manifest: Manifest) -> Manifest:
        """Make this the version behind its own. ArchiveError where somebody else was faster."""
        manifest = replace(manifest, version=manifest.version + 1)
        try:
            self._files.create(f"{self._directory}/{_name(manifest.version)}", _encoded(manifest))
        except FileExistsError:
            raise ArchiveError(
                f"another run is archiving topic {self._topic!r} to {self._files.uri}: let one of them do it"
            ) from None
        for name in self._names()[:-_KEPT]:
            self._files.delete(f"{self._directory}/{name}")
        self._files.sweep(f"{self._directory}/{_name(manifest.version)}")
        return manifest

    def _names(self) -> list[str]:
        return [name for name in self._files.names(self._directory) if name.endswith(".json") and name[0] != "."]


def _name(version: int) -> str:
    return f"{version:020}.json"


def _encoded(manifest: Manifest) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(manifest)}, ensure_ascii=False, indent=0).encode()


def _decoded(path: str, data: bytes) -> Manifest:
    try:
        fields: dict[str, Any] = json.loads(data)
        found = fields.pop("format")
        if found != FORMAT:
            raise ArchiveError(f"{path} is of format {found!r}, and this streamd knows {FORMAT}: use a later one")
        return Manifest(
            **{
                **fields,
                "files": tuple(File(**each) for each in fields["files"]),
                "lost": tuple((first, end) for first, end in fields["lost"]),
                "retired": tuple(Retired(**each) for each in fields["retired"]),
                "plan": tuple(_output(**each) for each in fields["plan"]),
            }
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArchiveError(f"{path} is damaged ({error}): restore it from a backup, or archive elsewhere") from None


def _output(file: dict[str, Any], young: list[dict[str, Any]], live: int) -> Output:
    return Output(File(**file), tuple(File(**each) for each in young), live)
