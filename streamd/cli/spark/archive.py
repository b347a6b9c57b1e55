"""``streamctl archive``: topics to Delta tables, for good."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from streamd.cli.command import USAGE, CommandError, check_server, print_json, size
from streamd.cli.connect import SERVER_HELP, server_address
from streamd.cli.spark.start import add_spark_options, spark_session


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "archive",
        help="write what has come to topics since the last time to Delta tables",
        description="Write what has come to topics since the last time to Delta tables, each message once.",
    )
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="a topic, or a pattern such as 'logs.*'")
    parser.add_argument("--to", required=True, metavar="URI", help="the archive: a directory, or s3a://BUCKET/…")
    parser.add_argument("--server", metavar="ADDRESS", help=SERVER_HELP)
    parser.add_argument("--context", metavar="NAME", help="the daemon of this context, see 'streamctl context'")
    parser.add_argument("--path", metavar="DIR", help="read the files of this store; without --server, tell no daemon")
    parser.add_argument("--group", metavar="NAME", help="the reader group (default: archive)")
    parser.add_argument("--file-bytes", type=size, metavar="BYTES", help="messages in a file, about (default: 256m)")
    parser.add_argument(
        "--schema", metavar="COLUMNS", help="typed columns, such as 'id long, at timestamp', or @FILE with them"
    )
    parser.add_argument(
        "--format", choices=("json", "csv", "smq"), help="what messages are, for --schema (default: json)"
    )
    parser.add_argument(
        "--on-data-loss",
        choices=("fail", "skip"),
        default="fail",
        help="what to do when messages are gone before they were archived (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")
    add_spark_options(parser)
    parser.set_defaults(run=run, more="topics")


def run(options: argparse.Namespace) -> int:
    """Archive, and tell what was done."""
    is_named = options.server is not None or options.context is not None
    server = server_address(options) if is_named or options.path is None else None
    if server is None:
        print("streamctl: no daemon is told: retention does not know of this archive", file=sys.stderr)
    else:
        check_server(server)
    settings = {
        "server": server,
        "path": options.path,
        "group": options.group,
        "file_bytes": options.file_bytes,
        "schema": _schema(options.schema),
        "format": options.format,
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
        unfit = f", {each.unfit} do not fit the schema (see the column error)" if each.unfit else ""
        print(f"{each.topic}: {each.rows} messages in {each.files} files, archived up to offset {each.end}{unfit}")
    return 0


def _schema(given: str | None) -> str | None:
    """The schema on the command line, or in a file that it names."""
    if given is None or not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{given[1:]} can't be read: {error}", USAGE)
