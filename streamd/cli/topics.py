"""``streamctl topics``, ``info``, ``create``, ``delete``, ``seal``, ``truncate``: what there is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

from streamd.cli.command import CommandError, print_json
from streamd.cli.connect import about, add_server_options, storage
from streamd.cli.messages.source import add_source_options, readable, source
from streamd.cli.places import PLACE_HELP, place
from streamd.cli.show import Size, amount, counted, described, print_table, say


def add(commands: Any) -> None:
    """Put the commands on the parser."""
    listing = _reading(commands, "topics", "list the topics", topics)
    listing.add_argument("pattern", nargs="?", default="*", metavar="PATTERN", help="those that fit, such as 'logs.*'")
    listing.add_argument("--names", action="store_true", help="print the names alone, one a line")
    _reading(commands, "info", "tell all that is known of a topic", info).add_argument("topic", metavar="TOPIC")
    making = _changing(commands, "create", "make topics", create)
    making.add_argument("--exist-ok", action="store_true", help="those that are there already are fine")
    deleting = _changing(commands, "delete", "delete topics with everything in them", delete)
    deleting.add_argument("--yes", action="store_true", help="do not ask")
    _changing(commands, "seal", "let topics take no more messages", seal)
    cutting = _changing(commands, "truncate", "drop the oldest messages of a topic", truncate, many=False)
    kept = f"the first message that is kept: {PLACE_HELP}"
    cutting.add_argument("--before", type=place, required=True, metavar="PLACE", help=kept)


def _reading(commands: Any, name: str, summary: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=f"{_sentence(summary)}.")
    add_source_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def _changing(commands: Any, name: str, summary: str, run: Any, *, many: bool = True) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=f"{_sentence(summary)}.")
    parser.add_argument("topics" if many else "topic", nargs="+" if many else None, metavar="TOPIC")
    add_server_options(parser)
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")
    parser.set_defaults(run=run, **({"more": "topics"} if many else {}))
    return parser


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


# -- looking -----------------------------------------------------------------------------------------------------------


def topics(options: argparse.Namespace) -> int:
    """List them."""
    with source(options) as found:
        # The same rule here as there, so that a path and a daemon list the same.
        listed = [each for each in found.segments() if fnmatchcase(each.name, options.pattern)]
    if options.json:
        print_json([described(each) for each in listed])
        return 0
    listed.sort(key=lambda each: each.name)
    if options.names:
        print("".join([f"{each.name}\n" for each in listed]), end="")
        return 0
    rows = [
        (each.name, each.records, each.first_number, each.number, Size(each.bytes), "sealed" if each.sealed else "")
        for each in listed
    ]
    print_table(("topic", "messages", "first", "next", "size", ""), rows)
    if not rows:
        fits = "" if options.pattern == "*" else f" that fits {options.pattern!r}"
        say(f"there is no topic{fits}: 'streamctl create' or 'streamctl publish --create' makes one")
    return 0


def info(options: argparse.Namespace) -> int:
    """All of one topic."""
    with source(options) as found:
        told = described(found.segment(options.topic))
    told.update(_more(options))
    if options.json:
        print_json(told)
        return 0
    for key, value in told.items():
        if key != "groups":
            print(f"{key.replace('_', ' ') + ':':14} {_shown(key, value)}")
    for name, group in told["groups"].items():
        print(f"{'reader group:':14} {name} at {group['position']:,}, {group['lag']:,} behind")
    return 0


def _shown(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key == "bytes" and isinstance(value, int):
        return f"{value:,} ({amount(value)})"
    if key == "retention":
        return "everything is kept" if not isinstance(value, dict) else ", ".join(f"{k} {v}" for k, v in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def _more(options: argparse.Namespace) -> dict[str, Any]:
    """What only a daemon's administrator is told, or the files tell: writers, groups, retention."""
    if options.path is None:
        with storage(options) as client, about(options.topic):
            known = client.segment(options.topic)
            listed = {each.group: each for each in client.groups() if each.segment == known.id}
            shown = ("position", "lag", "ranges")
            told = {name: {key: getattr(each, key) for key in shown} for name, each in listed.items()}
            more = client.describe(known.id)
        return {"writers": more["writers"], "groups": told, "retention": more["retention"]}
    from streamd.store.disk import Disk
    from streamd.store.errors import NoSuchSegment
    from streamd.store.reading.follow import Follower

    with readable():
        follower = Follower(Disk(), options.path)
        follower.close()
        segment = follower.segments.by_name.get(options.topic)
        if segment is None:
            raise NoSuchSegment(options.topic)
    groups = {
        name: {
            "position": acknowledged.position,
            "lag": acknowledged.lag(segment.number),
            "ranges": len(acknowledged.ranges),
        }
        for name, acknowledged in (segment.groups or {}).items()
    }
    return {"writers": len(segment.levels or {}), "groups": groups}


# -- changing ----------------------------------------------------------------------------------------------------------


def create(options: argparse.Namespace) -> int:
    """Make topics."""
    with storage(options) as client:
        made = []
        for name in options.topics:
            there = bool(options.exist_ok and client.named([name]))
            with _changed(options, name, "there already" if there else "made"):
                made.append(client.create(name, exists_ok=options.exist_ok))
    if options.json:
        print_json([described(each) for each in made])
    return 0


@contextmanager
def _changed(options: argparse.Namespace, name: str, done: str) -> Iterator[None]:
    """What is done to a topic is said at once: where a later one is refused, it is known which are done."""
    with about(name):
        yield
    if not options.json:
        print(f"{name}: {done}", flush=True)


def delete(options: argparse.Namespace) -> int:
    """Delete topics; a person is asked first."""
    with storage(options) as client:
        # All of them are looked at before the first one goes.
        ids = {}
        held = {}
        for name in options.topics:
            with about(name):
                segment = client.segment(name)
                ids[name], held[name] = segment.id, segment.records
        if not options.yes:
            shown = [f"{name} ({counted(count, 'message')})" for name, count in held.items()]
            ask_person(f"Delete {', '.join(shown)} for good?")
        for name in held:
            with _changed(options, name, f"deleted, with {counted(held[name], 'message')}"):
                client.delete(ids[name])
    if options.json:
        print_json([{"name": name, "records": count} for name, count in held.items()])
    return 0


def ask_person(question: str) -> None:
    """Go on only where somebody says yes."""
    try:
        # Not by input's own prompt: that goes to the standard output, and so into the file of who writes that down.
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        answer = input()
    except EOFError:
        raise CommandError("nobody is there to be asked: give --yes")
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was deleted")


def seal(options: argparse.Namespace) -> int:
    """Seal topics."""
    with storage(options) as client:
        for name in options.topics:
            with _changed(options, name, "sealed"):
                client.seal(client.segment(name).id)
    if options.json:
        print_json([{"name": name, "sealed": True} for name in options.topics])
    return 0


def truncate(options: argparse.Namespace) -> int:
    """Drop what is before an offset."""
    with storage(options) as found, about(options.topic):
        known = found.segment(options.topic)
        first = options.before.of(found, known)
    if first > known.number:
        raise CommandError(
            f"{options.topic}: it ends before offset {known.number}, and nothing was dropped: "
            "give a lower --before, or 'end' to drop all that is there"
        )
    with storage(options) as client, about(options.topic):
        client.truncate(known.id, first)
        left = client.segment(known.id)
    if options.json:
        print_json({"name": options.topic, "first_offset": left.first_number, "records": left.records})
    else:
        print(f"{options.topic}: {counted(left.records, 'message')} left, from offset {left.first_number:,} on")
    return 0
