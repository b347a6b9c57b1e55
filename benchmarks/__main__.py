"""``python -m benchmarks``: start the servers one after the other, load them, print the table."""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from textwrap import fill

from benchmarks import machine, programs
from benchmarks.case import MIB, Bench, Case, Sample
from benchmarks.cases import CASES, chosen
from benchmarks.load import Load, LoadError
from benchmarks.report import Report
from benchmarks.servers import BEFORE, Server, ServerError, known_servers, revision, speaking

_ROUNDS = 3
_OPEN_FILES = 16_384
_BALLAST_MIB = 1024
# Nothing that servers are compared with is removed before the end, see machine.write_ballast: about 24 GB in three
# rounds. The cases of streamd alone come and go, the largest with up to 20 GB.
_FREE_BYTES_MIN = 46_000 * MIB
_FREE_BYTES_MIN_QUICK = 5_000 * MIB
_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")


def main() -> int:
    """Parse, measure, print. The exit code is 1 where something failed, not where a goal was missed."""
    options = _parser().parse_args()
    try:
        cases = chosen(options.names)
    except KeyError as error:
        raise SystemExit(f"benchmarks: no such case: {error.args[0]}; there are {', '.join(c.name for c in CASES)}")
    _prepare_process()
    options.dir.mkdir(parents=True, exist_ok=True)
    if machine.filesystem(options.dir) in _MEMORY_FILE_SYSTEMS:
        raise SystemExit(f"benchmarks: {options.dir} is in memory, where a sync costs nothing: choose another --dir")
    wanted = _FREE_BYTES_MIN_QUICK if options.quick else _FREE_BYTES_MIN
    if shutil.disk_usage(options.dir).free < wanted:
        raise SystemExit(f"benchmarks: {options.dir} needs {wanted // MIB:,} MiB of free room for the time of the run")
    with tempfile.TemporaryDirectory(prefix="run-", dir=options.dir) as name, ExitStack() as stack:
        directory = Path(name).resolve()
        before = None
        if options.against:
            try:
                before = stack.enter_context(revision(options.against, directory))
            except ServerError as error:
                raise SystemExit(f"benchmarks: {error}")
            cases = [
                replace(case, servers=(*case.servers, BEFORE)) if "streamd" in case.servers else case for case in cases
            ]
        report = _run(options, cases, directory, before)
    print(report.markdown(), flush=True)
    if options.json:
        options.json.write_text(json.dumps(report.as_json(), indent=1) + "\n")
    return 1 if report.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="streamd beside the least possible program, Redis Streams and NATS JetStream.",
        epilog=fill(f"cases: {', '.join(case.name for case in CASES)}", 100, break_on_hyphens=False),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="CASE", help="a case, or a kind (publish); all by default")
    parser.add_argument("--quick", action="store_true", help="little data and one round: to see that it works")
    parser.add_argument("--rounds", type=int, help=f"rounds of each case, medians are taken (default: {_ROUNDS})")
    parser.add_argument("--servers", help="only these, with commas (default: all that are installed)")
    parser.add_argument("--dir", type=Path, default=Path("build/benchmarks"), help="data, on a real disk (%(default)s)")
    parser.add_argument(
        "--ballast", type=int, default=_BALLAST_MIB, metavar="MIB", help="written first, see README (%(default)s)"
    )
    parser.add_argument("--against", metavar="REV", help="measure streamd of this revision too, in turn with this one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to this file too")
    return parser


def _prepare_process() -> None:
    """Room for a thousand connections, here and in the servers, and a SIGTERM that stops the servers too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def _run(options: argparse.Namespace, cases: list[Case], directory: Path, before: Server | None) -> Report:
    built = programs.build(directory)
    known = _choose_servers(known_servers(built.limit), options.servers)
    known += [before] if before is not None else []
    servers = [each for each in known if any(each.name in case.servers for case in cases)]
    versions = {each.name: each.version() for each in servers}
    facts = machine.facts()
    _say(f"writing {options.ballast} MiB of ballast in {directory}")
    machine.write_ballast(directory, options.ballast * MIB)
    facts["disk"] = machine.filesystem(directory)
    facts["fdatasync of 4 KiB, p50"] = f"{machine.sync_latency_us(directory):,.0f} µs"
    report = Report(cases, versions, facts, options.quick)
    rounds = options.rounds or (1 if options.quick else _ROUNDS)
    bench = Bench(Load(built.load), options.quick)
    for case in cases:
        taking_part = [each for each in servers if each.name in case.servers and versions[each.name] is not None]
        for index in range(min(rounds, case.rounds_max)):
            # Another one begins each round: whoever goes first finds the disk rested.
            turn = index % max(1, len(taking_part))
            for server in taking_part[turn:] + taking_part[:turn]:
                data = directory / f"{case.name}-{server.name}-{index}"
                data.mkdir()
                report.add(case, server.name, _measure(bench, case, server, data, report, index + 1))
                # What a server left unsynced (NATS) must not be written while the next one is measured.
                os.sync()
                if set(case.servers) <= {"streamd", BEFORE}:
                    # The rule of machine.write_ballast is for comparisons; these would take tens of gigabytes.
                    shutil.rmtree(data)
    facts["rounds"] = f"{rounds}, interleaved"
    return report


def _choose_servers(servers: Sequence[Server], names: str | None) -> list[Server]:
    if names is None:
        return list(servers)
    wanted = names.split(",")
    known = [each.name for each in servers]
    for name in wanted:
        if name not in known:
            raise SystemExit(f"benchmarks: no such server: {name}; there are {', '.join(known)}")
    return [each for each in servers if each.name in wanted]


def _measure(bench: Bench, case: Case, server: Server, data: Path, report: Report, round_number: int) -> Sample | None:
    """One case on one server, started for it alone. A failure is noted, and the run goes on."""
    disk_mb = machine.write_rate_mb(data)
    try:
        running = speaking(server, case.service).start(data, case.file_bytes, case.settings)
        try:
            sample = case.measure(bench, running)
            sample["disk_mb"] = disk_mb
            sample["log_files"] = _log_files(data, case.file_bytes)
        except (LoadError, ServerError) as error:
            raise ServerError(f"{error}\n{running.log_tail()}")
        finally:
            running.stop()
    except ServerError as error:
        failure = f"{case.name}, {server.name}, round {round_number}: {error}"
        _say(failure)
        first, *log = failure.splitlines()
        report.failures.append(f"{first} {log[-1].strip()}" if log else first)
        return None
    figures = ", ".join(f"{each.title} {each.text(sample[each.name])}" for each in case.figures)
    _say(f"{case.name}, round {round_number}, {server.name}: {figures} (disk before it: {disk_mb:,.0f} MB/s)")
    return sample


def _log_files(directory: Path, file_bytes: int) -> int:
    """How many full or preallocated log files there are: one more than the rolls, for limit and streamd."""
    sizes = (each.stat().st_size for each in directory.rglob("*") if each.is_file())
    return sum(size >= file_bytes / 2 for size in sizes)


def _say(text: str) -> None:
    """Progress goes to stderr, so that stdout is the report alone."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
