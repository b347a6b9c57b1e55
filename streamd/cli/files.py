"""``streamctl verify``, ``repair``, ``backup`` and ``restore``: work on the files of a store."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from streamd.cli.command import FAILED, CommandError, print_json
from streamd.cli.messages.source import readable
from streamd.cli.show import Advance, Size, amount, counted, print_table, progress, say
from streamd.cli.values import positive

if TYPE_CHECKING:
    from streamd.store.upkeep.backup.files import Manifest
    from streamd.store.upkeep.problems import Problem, Progress

_PATHS: Final = ("streamd-data", "/var/lib/streamd")
"""The default directories of a store: that of a daemon started by hand, and that of the systemd service."""


def add(commands: Any) -> None:
    """Put the commands on the parser."""
    verifying = _command(commands, "verify", "check every checksum of a store, running or not", verify)
    _add_path(verifying)
    verifying.add_argument("--backup", metavar="DIR", help="check the files of this backup instead")
    repairing = _command(commands, "repair", "show what can be saved of a damaged store, and save it", repair)
    _add_path(repairing)
    repairing.add_argument(
        "--apply", action="store_true", help="carry out the repair; without this, nothing is changed"
    )
    taking = _command(commands, "backup", "add a snapshot of a store, running or not, to a backup", backup)
    taking.add_argument("to", metavar="DIR", help="the backup; a new one where there is nothing yet")
    _add_path(taking)
    taking.add_argument("--keep", type=positive, metavar="N", help="afterwards remove all snapshots but the last N")
    taking.add_argument("--list", action="store_true", help="list the snapshots of the backup, and add none")
    restoring = _command(commands, "restore", "make a store from a snapshot", restore)
    restoring.add_argument("backup", metavar="BACKUP", help="the backup")
    restoring.add_argument("to", metavar="DIR", help="the store: a new or empty directory")
    restoring.add_argument("--snapshot", metavar="NAME", help="which snapshot (default: the latest)")


def _command(commands: Any, name: str, summary: str, run: Any) -> argparse.ArgumentParser:
    sentence = f"{summary[0].upper()}{summary[1:]}."
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=sentence)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    parser.set_defaults(run=run)
    return parser


def _add_path(parser: argparse.ArgumentParser) -> None:
    # Whoever may not look into the service's directory is told of that one, so a link that leads there is enough.
    default = next((path for path in _PATHS if os.path.lexists(path)), _PATHS[0])
    text = f"the store (default: {_PATHS[0]}; where there is none, {_PATHS[1]})"
    parser.add_argument("--path", metavar="DIR", default=default, help=text)


# -- checking and repairing --------------------------------------------------------------------------------------------


def verify(options: argparse.Namespace) -> int:
    """Check a store. Exit status 0: sound; 1: damaged."""
    if options.backup is not None:
        return _verify_backup(options)
    with readable():
        if not {"identity", "journal"}.intersection(os.listdir(options.path)):
            raise CommandError(f"{options.path}: there is no store here. Give the data directory of a daemon as --path")
    problems = _problems(options.path, wanted=not options.no_progress)
    return _report(options.path, problems, as_json=options.json)


def _problems(path: str, *, wanted: bool) -> list[Problem]:
    from streamd.store.disk import Disk
    from streamd.store.upkeep.verify.check import verify as check

    with _checking(wanted=wanted) as show:
        return check(Disk(), path, show)


@contextmanager
def _checking(*, wanted: bool) -> Iterator[Callable[[Progress], None]]:
    """A progress bar for a check."""
    with progress("verify", 100, shown=lambda percent: f"{percent:.0f} %", rate=False, wanted=wanted) as advance:
        shown = 0

        def show(now: Progress) -> None:
            nonlocal shown
            percent = 100 * now.bytes_done // max(now.bytes_total, 1)
            advance(percent - shown)
            shown = percent

        yield show


def _report(path: str, problems: list[Problem], *, as_json: bool) -> int:
    from streamd.store.upkeep.problems import Severity

    damaged = sum(problem.severity is Severity.ERROR for problem in problems)
    if as_json:
        shown = [
            {
                "severity": problem.severity.value,
                "path": problem.path,
                "position": problem.position,
                "reason": problem.reason,
            }
            for problem in problems
        ]
        print_json({"path": path, "sound": not damaged, "problems": shown})
    else:
        for problem in problems:
            print(problem)
        print(f"{path}: {counted(damaged, 'damaged place')}" if damaged else f"{path}: sound")
    if damaged:
        say("restore a backup with 'streamctl restore', or see what 'streamctl repair' can save")
    return FAILED if damaged else 0


def _verify_backup(options: argparse.Namespace) -> int:
    from streamd.store.disk import Disk
    from streamd.store.upkeep.backup.files import Backup
    from streamd.store.upkeep.backup.restore import check

    disk = Disk()
    with readable():
        backup = Backup(disk, options.backup)
        manifests = backup.manifests()
        total = sum(manifest.size for manifest in manifests)
        with progress("verify", total, wanted=not options.no_progress) as advance:
            wrong = {manifest.name: check(disk, backup, manifest, advance) for manifest in manifests}
    if options.json:
        print_json({"path": options.backup, "sound": not any(wrong.values()), "snapshots": wrong})
    else:
        for name, lines in wrong.items():
            print("\n".join(f"damaged: {line}" for line in lines) or f"{name}: sound")
    return FAILED if any(wrong.values()) else 0


def repair(options: argparse.Namespace) -> int:
    """Print what a repair would do; with --apply, do it. Exit status 0: nothing is damaged any more."""
    from streamd.store.disk import Disk
    from streamd.store.upkeep.repair.run import Repair

    with readable(), Repair(Disk(), options.path) as repairing:
        with _checking(wanted=not options.no_progress) as show:
            steps = repairing.examine(show)
        if not options.json:
            for step in steps:
                print(step)
        kept = repairing.apply(_now()) if options.apply and steps else None
    sound = not steps
    if kept is not None:
        problems = _problems(options.path, wanted=not options.no_progress)
        sound = not any(problem.severity.value == "damaged" for problem in problems)
    if options.json:
        shown = [{"path": step.path, "damage": step.damage, "action": step.action, "lost": step.lost} for step in steps]
        print_json({"path": options.path, "steps": shown, "applied": kept is not None, "kept": kept, "sound": sound})
    elif not steps:
        print(f"{options.path}: nothing to repair")
    elif kept is None:
        say(f"nothing was changed. Copy {options.path} somewhere safe first; then run it with --apply")
    else:
        print(f"{options.path}: repaired; everything that was cut off is kept in {kept}")
        if not sound:
            raise CommandError("more damage was found: run 'streamctl repair' again")
    return 0 if sound else FAILED


# -- backups -----------------------------------------------------------------------------------------------------------


def _now() -> str:
    """The time in the form that names of snapshots have: they sort by it."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def backup(options: argparse.Namespace) -> int:
    """Take a snapshot."""
    from streamd.store.disk import Disk
    from streamd.store.upkeep.backup.files import Backup
    from streamd.store.upkeep.backup.run import take_backup

    disk = Disk()
    if options.list:
        with readable():
            return _list(Backup(disk, options.to).manifests(), as_json=options.json)
    with readable(options.to), ExitStack() as stack:
        bars: list[Advance] = []

        def expect(total: int) -> None:
            bars[:] = [stack.enter_context(progress("backup", total, wanted=not options.no_progress))]

        taken = take_backup(disk, options.path, options.to, _now(), expect, lambda more: bars[0](more))
        forgotten = Backup(disk, options.to).forget(options.keep) if options.keep is not None else []
    if taken.tightened:
        files = counted(taken.tightened, "file")
        say(f"{options.to}: other users could read {files} of this backup; only the owner can now")
    if options.json:
        print_json({**_as_json(taken.manifest), "copied_bytes": taken.copied_bytes, "forgotten": forgotten})
    else:
        print(f"{options.to}: snapshot {taken.manifest.name}, {amount(taken.manifest.size)}, ", end="")
        print(f"{amount(taken.copied_bytes)} of it copied now")
        for name in forgotten:
            print(f"{options.to}: snapshot {name} forgotten")
    return 0


def _as_json(manifest: Manifest) -> dict[str, Any]:
    shown = {"snapshot": manifest.name, "store": manifest.store, "sequence": manifest.sequence}
    return {**shown, "bytes": manifest.size, "packs": len(manifest.packs)}


def _list(manifests: list[Manifest], *, as_json: bool) -> int:
    if as_json:
        print_json([_as_json(manifest) for manifest in manifests])
    else:
        rows = [(manifest.name, manifest.sequence, Size(manifest.size), len(manifest.packs)) for manifest in manifests]
        print_table(("snapshot", "sequence", "size", "packs"), rows)
    return 0


def restore(options: argparse.Namespace) -> int:
    """Make a store from a snapshot, and verify it."""
    from streamd.store.disk import Disk
    from streamd.store.upkeep.backup.files import Backup
    from streamd.store.upkeep.backup.restore import choose
    from streamd.store.upkeep.backup.restore import restore as copy

    disk = Disk()
    with readable(options.to):
        backup = Backup(disk, options.backup)
        manifest = choose(backup, options.snapshot)
        with progress("restore", manifest.size, wanted=not options.no_progress) as advance:
            copy(disk, backup, manifest, options.to, advance)
    problems = _problems(options.to, wanted=not options.no_progress)
    if not options.json:
        print(f"{options.to}: restored from snapshot {manifest.name}")
    return _report(options.to, problems, as_json=options.json)
