"""``streamctl topics``, ``info``, ``create``, ``delete``, ``seal``, ``truncate``, ``groups``: what there is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

from streamd.cli.command import CommandError, print_json
from streamd.cli.connect import about, add_server_options, sesp, storage
from streamd.cli.messages.source import add_source_options, readable, source
from streamd.cli.places import PLACE_HELP, place
from streamd.cli.show import Size, amount, counted, described, print_table, say


def add(commands: Any) -> None:
    """Put the commands on the parser."""
    listing = _reading(commands, "topics", "list the topics", topics)
    listing.add_argument("pattern", nargs="?", default="*", metavar="PATTERN", help="those that fit, such as 'logs.*'")
    listing.add_argument("--names", action="store_true", help="print the names alone, one a line")
    _reading(commands, "info", "tell all that is known of a topic", info).add_argument("topic", metavar="TOPIC")
    _reading(commands, "groups", "list the reader groups of a topic", groups).add_argument("topic", metavar="TOPIC")
    making = _changing(commands, "create", "make topics", create)
    making.add_argument("--exist-ok", action="store_true", help="those that are there already are fine")
    deleting = _changing(commands, "delete", "delete topics with everything in them", delete)
    deleting.add_argument("--yes", action="store_true", help="do not ask")
    _changing(commands, "seal", "let topics take no more records", seal)
    cutting = _changing(commands, "truncate", "drop the oldest records of a topic", truncate, many=False)
    kept = f"the first record that is kept: {PLACE_HELP}"
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
    print_table(("topic", "records", "first", "next", "size", ""), rows)
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


def groups(options: argparse.Namespace) -> int:
    """Who reads, and how far they are."""
    told = _more(options)["groups"]
    if options.json:
        print_json(told)
        return 0
    rows = [(name, each["position"], each["lag"], each["ranges"]) for name, each in sorted(told.items())]
    print_table(("reader group", "position", "behind", "ranges above"), rows)
    if not rows:
        say(f"nobody reads {options.topic} in a reader group")
    return 0


def _more(options: argparse.Namespace) -> dict[str, Any]:
    """What only a daemon's administrator is told, or the files tell: writers, groups, retention."""
    if options.path is None:
        with sesp(options) as client, about(options.topic):
            told = client.info(options.topic)
        return {"writers": told["writers"], "groups": told["groups"], "retention": told["retention"]}
    from streamd.store.disk import Disk
    from streamd.store.errors import NoSuchSegment
    from streamd.store.reading.follow import Follower

    with readable():
        follower = Follower(Disk(), options.path)
        follower.close()
        segment = follower.segments.by_name.get(options.topic)
        if segment is None:
            raise NoSuchSegment(options.topic)
    found = {
        name: {"position": group.position, "lag": segment.number - group.position, "ranges": len(group.ranges)}
        for name, group in (segment.groups or {}).items()
    }
    return {"writers": len(segment.levels or {}), "groups": found}


# -- changing ----------------------------------------------------------------------------------------------------------


def create(options: argparse.Namespace) -> int:
    """Make topics."""
    with storage(options) as client:
        made = []
        for name in options.topics:
            with _changed(options, name, "made"):
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
    with sesp(options) as client:
        # All of them are looked at before the first one goes.
        held = {}
        for name in options.topics:
            with about(name):
                held[name] = client.info(name)["messages"]
        if not options.yes:
            _ask(held)
        for name in held:
            with _changed(options, name, f"deleted, with {counted(held[name], 'record')}"):
                client.delete(name)
    if options.json:
        print_json([{"name": name, "records": count} for name, count in held.items()])
    return 0


def _ask(held: dict[str, int]) -> None:
    shown = ", ".join(f"{name} ({counted(count, 'record')})" for name, count in held.items())
    try:
        # Not by input's own prompt: that goes to the standard output, and so into the file of who writes that down.
        print(f"Delete {shown} for good? [y/N] ", end="", file=sys.stderr, flush=True)
        answer = input()
    except EOFError:
        raise CommandError("nobody is there to be asked: give --yes")
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was deleted")


def seal(options: argparse.Namespace) -> int:
    """Seal topics."""
    with sesp(options) as client:
        for name in options.topics:
            with _changed(options, name, "sealed"):
                client.seal(name)
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
    with sesp(options) as client, about(options.topic):
        client.topic(options.topic).truncate(first)
        told = client.info(options.topic)
    if options.json:
        print_json({"name": options.topic, "first_offset": told["first_offset"], "records": told["messages"]})
    else:
        left = counted(told["messages"], "record")
        print(f"{options.topic}: {left} left, from offset {told['first_offset']:,} on")
    return 0
