"""``streamctl archive``: topics to Parquet, for good."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

from streamd.cli.command import SERVER, check_server, print_json, size
from streamd.cli.spark.start import add_spark_options, spark_session


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "archive",
        help="write what has come to topics since the last time to Parquet files",
        description="Write what has come to topics since the last time to Parquet files, each record once.",
    )
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="a topic, or a pattern such as 'logs.*'")
    parser.add_argument("--to", required=True, metavar="URI", help="the archive: a directory or a URI of Spark's")
    parser.add_argument("--server", metavar="HOST:PORT", help=f"the daemon's Pravega service (default: {SERVER})")
    parser.add_argument("--path", metavar="DIR", help="read the files of this store; without --server, tell no daemon")
    parser.add_argument("--group", metavar="NAME", help="the reader group (default: archive)")
    parser.add_argument("--file-bytes", type=size, metavar="BYTES", help="records in a file, about (default: 256m)")
    parser.add_argument("--no-wait", action="store_true", help="put small files in place too, before their day is over")
    parser.add_argument(
        "--on-data-loss",
        choices=("fail", "skip"),
        default="fail",
        help="what to do when records are gone before they were archived (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")
    add_spark_options(parser)
    parser.set_defaults(run=run, more="topics")


def run(options: argparse.Namespace) -> int:
    """Archive, and tell what was done."""
    server = options.server if options.server is not None or options.path is not None else SERVER
    if server is None:
        print("streamctl: no daemon is told: retention does not know of this archive", file=sys.stderr)
    else:
        check_server(server)
    settings = {
        "server": server,
        "path": options.path,
        "group": options.group,
        "file_bytes": options.file_bytes,
        "wait": not options.no_wait,
        "on_data_loss": options.on_data_loss,
    }
    with spark_session("streamctl archive", options) as spark:
        from streamd.spark import archive

        given = {name: value for name, value in settings.items() if value is not None}
        done = archive(spark, options.topics, options.to, **given)
    if options.json:
        print_json([asdict(each) for each in done])
        return 0
    for each in done:
        print(f"{each.topic}: {each.rows} records in {each.files} files, archived up to offset {each.end}")
    return 0
