"""``streamctl export``: the messages of topics as JSON lines or as Parquet."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from streamd.cli.command import PARQUET, UNAVAILABLE, USAGE, CommandError, print_json
from streamd.cli.messages.records import json_lines
from streamd.cli.messages.source import add_source_options, source
from streamd.cli.places import END, FIRST, PLACE_HELP, place
from streamd.cli.show import Advance, counted, numbers, progress

if TYPE_CHECKING:
    from streamd.cli.messages.source import Info, Run, Source


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "export",
        help="write the messages of topics to a file",
        description="Write the messages of topics as JSON lines or as Parquet, up to those that are there now.",
    )
    parser.add_argument("topics", nargs="+", metavar="TOPIC")
    parser.add_argument("--format", choices=("jsonl", "parquet"), help="(default: by the name of the file, or jsonl)")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to (default: standard output, JSON lines only)")
    parser.add_argument("--from", dest="first", type=place, default=FIRST, metavar="PLACE", help=PLACE_HELP)
    parser.add_argument("--to", dest="end", type=place, default=END, metavar="PLACE", help="the first that is left out")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON; needs --output")
    add_source_options(parser)
    parser.set_defaults(run=run, more="topics")


def run(options: argparse.Namespace) -> int:
    """Write all topics, one after the other."""
    if options.format is None:
        options.format = "parquet" if str(options.output).endswith(".parquet") else "jsonl"
    if options.output is None and (options.format == "parquet" or options.json):
        raise CommandError(f"{'--json' if options.json else 'Parquet'} needs a file: give --output FILE", USAGE)
    with source(options) as found:
        ranges = []
        for name in options.topics:
            info = found.segment(name)
            ranges.append((info, options.first.of(found, info), min(options.end.of(found, info), info.number)))
        total = sum(max(end - first, 0) for _, first, end in ranges)
        with (
            progress("export", total, shown=numbers, wanted=options.output is not None) as advance,
            _output(options.output) as file,
        ):
            write = _write_parquet if options.format == "parquet" else _write_json
            write(file, found, [each for each in ranges if each[1] < each[2]], advance)
    if options.json:
        print_json([{"topic": each.name, "first_offset": first, "next_offset": end} for each, first, end in ranges])
    elif options.output is not None:
        print(f"{options.output}: {counted(total, 'message')}")
    return 0


@contextmanager
def _output(path: str | None) -> Iterator[BinaryIO]:
    """The file, which gets its name when all of it is there: half an export is never taken for a whole one."""
    if path is None:
        yield sys.stdout.buffer
        return
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise CommandError(f"{path}: {error.strerror or error}. Nothing was left there")
        raise


def _runs(found: Source, info: Info, first: int, end: int, advance: Advance) -> Iterator[Run]:
    for each in found.read(info.id, first, end):
        yield each
        advance(each.batch.count)


def _write_json(file: BinaryIO, found: Source, ranges: list[tuple[Info, int, int]], advance: Advance) -> None:
    for info, first, end in ranges:
        for each in _runs(found, info, first, end, advance):
            file.write(json_lines(info.name, each))


def _write_parquet(file: BinaryIO, found: Source, ranges: list[tuple[Info, int, int]], advance: Advance) -> None:
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        from streamd.spark.read.columns import ARROW, batches
    except ImportError as error:
        raise CommandError(
            f"Parquet is written with pyarrow, and {error.name} is not installed: {PARQUET}",
            UNAVAILABLE,
        )
    schema = pa.schema(list(ARROW.items()))
    with ParquetWriter(file, schema, compression="zstd") as writer:
        for info, first, end in ranges:
            for batch in batches(schema, info.name, _runs(found, info, first, end, advance)):
                writer.write_batch(batch)
