"""``streamctl topics``, ``info``, ``create``, ``delete``, ``seal``, ``truncate``, ``groups``: what there is."""

from __future__ import annotations

import argparse
from fnmatch import fnmatchcase
from typing import Any

from streamd.cli.command import CommandError, print_json
from streamd.cli.connect import add_server_options, sesp, storage
from streamd.cli.show import amount, described, print_table
from streamd.cli.source import add_source_options, readable, source
from streamd.cli.values import whole


def add(commands: Any) -> None:
    """Put the commands on the parser."""
    listing = _reading(commands, "topics", "list the topics", topics)
    listing.add_argument("pattern", nargs="?", default="*", metavar="PATTERN", help="those that fit, such as 'logs.*'")
    _reading(commands, "info", "tell all that is known of a topic", info).add_argument("topic", metavar="TOPIC")
    _reading(commands, "groups", "list the reader groups of a topic", groups).add_argument("topic", metavar="TOPIC")
    making = _changing(commands, "create", "make topics", create)
    making.add_argument("--exist-ok", action="store_true", help="those that are there already are fine")
    deleting = _changing(commands, "delete", "delete topics with everything in them", delete)
    deleting.add_argument("--yes", action="store_true", help="do not ask")
    _changing(commands, "seal", "let topics take no more messages", seal)
    cutting = _changing(commands, "truncate", "drop the oldest messages of a topic", truncate, many=False)
    cutting.add_argument("--before", type=whole, required=True, metavar="OFFSET", help="the first message that is kept")


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
    rows = [
        (each.name, each.records, each.first_number, each.number, amount(each.bytes), "sealed" if each.sealed else "")
        for each in sorted(listed, key=lambda each: each.name)
    ]
    print_table(("topic", "messages", "first", "next", "size", ""), rows)
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
            print(f"{key + ':':14} {_shown(key, value)}")
    for name, group in told["groups"].items():
        print(f"{'group:':14} {name} at {group['position']:,}, {group['lag']:,} behind")
    return 0


def _shown(key: str, value: object) -> str:
    if key == "bytes" and isinstance(value, int):
        return f"{value:,} ({amount(value)})"
    if key == "retention":
        return "everything is kept" if not isinstance(value, dict) else ", ".join(f"{k} {v}" for k, v in value.items())
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def groups(options: argparse.Namespace) -> int:
    """Who reads, and how far they are."""
    told = _more(options)["groups"]
    if options.json:
        print_json(told)
        return 0
    rows = [(name, each["position"], each["lag"], each["ranges"]) for name, each in sorted(told.items())]
    print_table(("group", "position", "behind", "ranges above"), rows)
    return 0


def _more(options: argparse.Namespace) -> dict[str, Any]:
    """What only a daemon's administrator is told, or the files tell: writers, groups, retention."""
    if options.path is None:
        with sesp(options) as client:
            told = client.info(options.topic)
        return {"writers": told["writers"], "groups": told["groups"], "retention": told["retention"]}
    from streamd.store.disk import Disk
    from streamd.store.errors import NoSuchSegment
    from streamd.store.follow import Follower

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
        made = [client.create(name, exists_ok=options.exist_ok) for name in options.topics]
    if options.json:
        print_json([described(each) for each in made])
    return 0


def delete(options: argparse.Namespace) -> int:
    """Delete topics; a person is asked first."""
    with sesp(options) as client:
        # All of them are looked at before the first one goes.
        held = {name: client.info(name)["messages"] for name in options.topics}
        if not options.yes:
            _ask(held)
        for name in options.topics:
            client.delete(name)
    if options.json:
        print_json([{"name": name, "messages": count} for name, count in held.items()])
    return 0


def _ask(held: dict[str, int]) -> None:
    shown = ", ".join(f"{name} ({count:,} messages)" for name, count in held.items())
    try:
        answer = input(f"Delete {shown} for good? [y/N] ")
    except EOFError:
        raise CommandError("nobody is there to be asked: give --yes")
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was deleted")


def seal(options: argparse.Namespace) -> int:
    """Seal topics."""
    with sesp(options) as client:
        for name in options.topics:
            client.seal(name)
    if options.json:
        print_json([{"name": name, "sealed": True} for name in options.topics])
    return 0


def truncate(options: argparse.Namespace) -> int:
    """Drop what is before an offset."""
    with sesp(options) as client:
        client.topic(options.topic).truncate(options.before)
        told = client.info(options.topic)
    if options.json:
        print_json({"name": options.topic, "first_offset": told["first_offset"], "messages": told["messages"]})
    else:
        print(f"{options.topic}: {told['messages']:,} messages are left, from offset {told['first_offset']:,} on")
    return 0
