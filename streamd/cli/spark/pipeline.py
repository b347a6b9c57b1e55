"""``streamctl pipeline``: streaming SQL from topics to topics, out of a file."""

from __future__ import annotations

import argparse
import signal
import sys
from dataclasses import asdict
from threading import Event
from typing import TYPE_CHECKING, Any

from streamd.cli.command import USAGE, CommandError, check_server, print_json
from streamd.cli.spark.start import add_spark_options, gone_with, in_short, missing, spark_session

if TYPE_CHECKING:
    from streamd.spark.pipeline.file import Pipeline
    from streamd.spark.pipeline.run import Progress


def add(commands: Any) -> None:
    """Put the commands on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "pipeline", help="run streaming SQL from topics to topics", description="Run or check a pipeline."
    )
    own = parser.add_subparsers(metavar="ACTION", required=True)
    running = own.add_parser(
        "run",
        help="run a pipeline until it is stopped",
        description="Run a pipeline, from where it was, until SIGTERM or Ctrl-C.",
    )
    running.add_argument("--once", action="store_true", help="end when all that is there now is read")
    running.set_defaults(run=run)
    checking = own.add_parser(
        "check",
        help="check a pipeline, and run nothing",
        description="Check a pipeline's file and its SQL, and run nothing.",
    )
    checking.set_defaults(run=check)
    for each in (running, checking):
        each.add_argument("file", metavar="FILE", help="the pipeline, in TOML")
        each.add_argument("--json", action="store_true", help="print JSON, one object a line")
        add_spark_options(each)


def run(options: argparse.Namespace) -> int:
    """Run until it is stopped, or fails."""
    stop = Event()
    # Before Spark starts, which takes seconds: whoever stops it then gets what he wants too.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    pipeline = _load(options.file)
    _add_settings(pipeline, options)
    if pipeline.path is None or any(sink.topic is not None for sink in pipeline.sinks):
        check_server(pipeline.server)
    with spark_session(pipeline.name, options, stop) as spark:
        from streamd.spark.pipeline.file import PipelineError
        from streamd.spark.pipeline.run import QueryFailed, Running

        running = Running(spark, pipeline)
        try:
            with gone_with(stop):
                running.start(once=options.once)
                _say(f"{pipeline.name}: {len(pipeline.sinks)} queries are running")
                for progress in running.follow(stop):
                    _tell(progress, options.json)
        except PipelineError as error:
            raise CommandError(str(error), USAGE)
        except QueryFailed as failed:
            raise CommandError(f"{pipeline.file}: sink {failed.sink}: {in_short(failed.error)}")
        finally:
            with gone_with(stop):
                running.stop()
    _say(f"{pipeline.name}: {'all is read' if options.once and not stop.is_set() else 'stopped'}")
    return 0


def _tell(progress: Progress, as_json: bool) -> None:
    if as_json:
        print_json(asdict(progress))
        sys.stdout.flush()
    else:
        rate = f"{progress.rows_per_second:.0f} rows/s"
        _say(f"{progress.sink}: {progress.rows} rows read, {progress.written} written, {rate}, lag {progress.lag}")


def check(options: argparse.Namespace) -> int:
    """Check the file, then have Spark look at the SQL."""
    pipeline = _load(options.file)
    _add_settings(pipeline, options)
    with spark_session(pipeline.name, options) as spark:
        from streamd.spark.pipeline import run as pipeline_run
        from streamd.spark.pipeline.file import PipelineError

        try:
            columns = pipeline_run.check(spark, pipeline)
        except PipelineError as error:
            raise CommandError(str(error), USAGE)
    if options.json:
        print_json({"pipeline": pipeline.name, "sinks": columns})
    else:
        print(f"{options.file}: good")
        for sink, found in columns.items():
            print(f"{sink}: {found}")
    return 0


def _load(file: str) -> Pipeline:
    try:
        from streamd.spark.pipeline.file import PipelineError, load
    except ImportError as error:
        raise missing(error)
    try:
        return load(file)
    except PipelineError as error:
        raise CommandError(str(error), USAGE)


def _add_settings(pipeline: Pipeline, options: argparse.Namespace) -> None:
    """Settings of Spark in the file; those on the command line win."""
    options.conf = [*pipeline.spark.items(), *options.conf]


def _say(text: str) -> None:
    """What goes on, beside what is printed for others."""
    print(text, file=sys.stderr, flush=True)
