"""``streamctl groups``: who shares the messages of a topic, how far they are, and what is stuck."""

from __future__ import annotations

import argparse
import json
import sys
import time
from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from streamd.as_json import when
from streamd.cli.command import FAILED, USAGE, CommandError, print_json
from streamd.cli.connect import about, add_server_options, storage
from streamd.cli.messages.records import add_shape_options, shape_of
from streamd.cli.places import PLACE_HELP, place
from streamd.cli.show import counted, print_table, say
from streamd.cli.values import positive, seconds, whole

if TYPE_CHECKING:
    from streamd.client.blocking import StorageClient
    from streamd.wire.tools import Run, SegmentInfo
    from streamd.wire.work import GroupInfo

SENT_BACK: Final = "sent-back"
"""The reader group of a topic of dead letters that knows which of them were sent back."""

# How long one request of a member waits.
_POLL_SECONDS: Final = 5.0


def add(commands: Any) -> None:
    """Put the commands on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "groups",
        help="see who reads in groups, move them, read as one of them",
        description="Reader groups: who shares the messages of a topic, how far they are, and what is stuck.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    listing = _action(actions, "list", "list the groups of all topics", list_groups)
    listing.add_argument(
        "pattern", nargs="?", default="*", metavar="TOPIC", help="of topics that fit, such as 'logs.*'"
    )
    showing = _action(actions, "show", "tell all that is known of a topic's groups", show)
    showing.add_argument("topic", metavar="TOPIC")
    showing.add_argument("group", nargs="?", metavar="GROUP", help="(default: all of them)")
    moving = _action(actions, "reset", "put a group elsewhere; without --apply, tell what that would do", reset)
    _group(moving)
    moving.add_argument("--to", type=place, required=True, metavar="PLACE", help=f"earliest, latest or {PLACE_HELP}")
    moving.add_argument("--apply", action="store_true", help="do it")
    moving.add_argument("--force", action="store_true", help="also while members read")
    deleting = _action(actions, "delete", "forget a group", delete)
    _group(deleting)
    deleting.add_argument("--yes", action="store_true", help="do not ask")
    deleting.add_argument("--force", action="store_true", help="also while members read")
    _add_set(actions)
    _add_consume(actions)
    dying = _action(actions, "dead", "look at dead letters, or send them back", dead)
    dying.add_argument("topic", metavar="TOPIC", help="the topic of the dead letters")
    dying.add_argument("--group", metavar="GROUP", help="those that this group gave up")
    dying.add_argument("--all", action="store_true", help="also those that were sent back already")
    dying.add_argument("--send-back", action="store_true", help="publish them again where they came from")
    dying.add_argument("--apply", action="store_true", help="with --send-back: do it")


def _add_set(actions: Any) -> None:
    ruling = _action(actions, "set", "set what becomes of messages that a group does not acknowledge", set_rule)
    _group(ruling)
    ruling.add_argument("--deliveries-max", type=whole, default=0, metavar="N", help="give up after N deliveries")
    ruling.add_argument(
        "--retry-seconds", type=_pauses, default=[], metavar="S,S…", help="pauses before it is delivered again"
    )
    ruling.add_argument("--dead-letter", default="", metavar="TOPIC", help="where messages go that are given up")
    ruling.add_argument("--clear", action="store_true", help="let the daemon's file count again")


def _add_consume(actions: Any) -> None:
    reading = _action(actions, "consume", "read as a member of a group, and acknowledge", consume, shaped=True)
    _group(reading)
    reading.add_argument("-f", "--follow", action="store_true", help="go on as messages come, until Ctrl-C")
    reading.add_argument("-c", "--count", type=positive, metavar="N", help="end after N messages")
    reading.add_argument("--wait", type=seconds, metavar="SECONDS", help="end when none came for so long")
    reading.add_argument(
        "--ack",
        choices=("yes", "no", "nack"),
        default="yes",
        help="acknowledge each when it is printed, give all back at the end, or refuse each (default: %(default)s)",
    )
    reading.add_argument("--latest", action="store_true", help="a group that is new begins behind the last message")


def _action(actions: Any, name: str, summary: str, run: Any, *, shaped: bool = False) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = actions.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
    )
    add_server_options(made)
    if shaped:
        add_shape_options(made)
    else:
        made.add_argument("--json", action="store_true", help="print JSON")
    made.set_defaults(run=run)
    return made


def _group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("group", metavar="GROUP")


def _pauses(text: str) -> list[float]:
    try:
        pauses = [float(each) for each in text.split(",")]
    except ValueError:
        pauses = [-1.0]
    if any(not 0 <= each < 1e9 for each in pauses):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of seconds, such as 1,10,60")
    return pauses


# -- looking -----------------------------------------------------------------------------------------------------------


def list_groups(options: argparse.Namespace) -> int:
    """The groups of all topics."""
    with storage(options) as client:
        groups = client.groups(options.pattern)
    if options.json:
        print_json([_described(each) for each in groups])
        return 0
    rows = [
        (each.topic, each.group, each.members, each.lag, each.outstanding, each.waiting, each.dead_letters)
        for each in sorted(groups)
    ]
    rows.sort()
    print_table(("topic", "group", "members", "lag", "outstanding", "waiting", "dead letters"), rows)
    if not rows:
        fits = "" if options.pattern == "*" else f" of a topic that fits {options.pattern!r}"
        say(f"there is no reader group{fits}")
    return 0


def _described(group: GroupInfo) -> dict[str, Any]:
    told: dict[str, Any] = group._asdict()
    del told["segment"]
    return {**told, "rule": json.loads(group.rule) if group.rule else None}


def _found(client: StorageClient, topic: str, name: str | None) -> tuple[SegmentInfo, list[GroupInfo]]:
    """A topic, and its groups, or the one of this name."""
    with about(topic):
        segment = client.segment(topic)
    groups = [each for each in client.groups(_literal(topic)) if each.segment == segment.id]
    if name is not None:
        groups = [each for each in groups if each.group == name]
        if not groups:
            raise CommandError(
                f"{topic} has no reader group {name!r}: 'streamctl groups list' shows all of them", FAILED
            )
    return segment, groups


def _literal(name: str) -> str:
    """A shell pattern for this name alone."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in name)


def show(options: argparse.Namespace) -> int:
    """All of a topic's groups, or of one."""
    with storage(options) as client:
        segment, groups = _found(client, options.topic, options.group)
        told = [{**_described(each), "oldest": _oldest(client, segment, each)} for each in groups]
    if options.json:
        print_json(told)
        return 0
    for group in told:
        print(f"{group['group']} of {group['topic']}")
        for key in ("members", "lag", "outstanding", "waiting", "redeliveries", "position"):
            print(f"  {key + ':':14} {group[key]:,}")
        print(f"  {'dead letters:':14} {group['dead_letters']:,}")
        print(f"  {'oldest:':14} {group['oldest'] or 'nothing is to be acknowledged'}")
        rule = group["rule"] or {}
        shown = ", ".join(f"{key} {value}" for key, value in rule.items() if value)
        print(f"  {'rule:':14} {shown or 'none: what comes back is delivered again at once'}")
    if not told:
        say(f"nobody reads {options.topic} in a reader group")
    return 0


def _oldest(client: StorageClient, segment: SegmentInfo, group: GroupInfo) -> str | None:
    """Since when the first message waits that the group has not acknowledged."""
    if group.position >= segment.number:
        return None
    for run in client.read(segment.id, group.position, group.position + 1):
        return when(run.timestamp)
    return None


# -- changing ----------------------------------------------------------------------------------------------------------


def reset(options: argparse.Namespace) -> int:
    """Put a group elsewhere, or say what that would do."""
    with storage(options) as client:
        segment, groups = _found(client, options.topic, None)
        known = next((each for each in groups if each.group == options.group), None)
        with about(options.topic):
            position = options.to.of(client, segment)
        if not segment.first_number <= position <= segment.number:
            raise CommandError(
                f"{options.topic} has messages {segment.first_number} to {segment.number}, and {position} lies outside",
                USAGE,
            )
        before = segment.first_number if known is None else known.position
        if options.apply:
            with about(f"{options.topic}, group {options.group}"):
                position = client.move_group(segment.id, options.group, position, force=options.force)
    told = {"topic": options.topic, "group": options.group, "from": before, "to": position, "applied": options.apply}
    if options.json:
        print_json(told)
        return 0
    change = position - before
    meant = f"{counted(abs(change), 'message')} {'skipped' if change > 0 else 'to be delivered again'}"
    where = "a new group" if known is None else f"from {before:,}"
    print(f"{options.topic}, group {options.group}: {where} to {position:,}, {meant}")
    if not options.apply:
        busy = f" ({counted(known.members, 'member')} read now: --force)" if known is not None and known.members else ""
        say(f"nothing is changed yet: give --apply{busy}")
    return 0


def delete(options: argparse.Namespace) -> int:
    """Forget a group; a person is asked first."""
    from streamd.cli.topics import ask_person

    with storage(options) as client:
        segment, (group,) = _found(client, options.topic, options.group)
        if not options.yes:
            ask_person(f"Delete group {options.group} of {options.topic}, which is at {group.position:,}, for good?")
        with about(f"{options.topic}, group {options.group}"):
            client.drop_group(segment.id, options.group, force=options.force)
    if options.json:
        print_json({"topic": options.topic, "group": options.group, "position": group.position})
    else:
        print(f"{options.topic}, group {options.group}: deleted")
    return 0


def set_rule(options: argparse.Namespace) -> int:
    """Set a rule, or remove it."""
    rule = {
        "deliveries_max": options.deliveries_max,
        "retry_seconds": options.retry_seconds,
        "dead_letter": options.dead_letter,
    }
    if options.clear == any(rule.values()):
        raise CommandError("give --deliveries-max with --dead-letter, --retry-seconds, or --clear", USAGE)
    with storage(options) as client, about(options.topic):
        segment = client.segment(options.topic)
        client.set_group_rule(segment.id, options.group, "" if options.clear else json.dumps(rule))
    if options.json:
        print_json({"topic": options.topic, "group": options.group, "rule": None if options.clear else rule})
    else:
        print(f"{options.topic}, group {options.group}: {'the rule of the file counts' if options.clear else 'set'}")
    return 0


# -- reading as a member -----------------------------------------------------------------------------------------------


def consume(options: argparse.Namespace) -> int:
    """Print messages as a member of a group."""
    with storage(options) as client:
        with about(options.topic):
            segment = client.segment(options.topic)
        shape = shape_of(options)
        for run in _taken(client, segment.id, options):
            sys.stdout.buffer.write(shape(run))
            sys.stdout.buffer.flush()
            numbers = range(run.number, run.number + run.batch.count)
            # Only when they are printed: whoever reads them may be gone.
            if options.ack == "yes":
                client.acknowledge(segment.id, options.group, numbers)
            elif options.ack == "nack":
                client.refuse(segment.id, options.group, numbers, error="refused by streamctl")
        client.leave(segment.id, options.group)
    return 0


def _taken(client: StorageClient, segment: int, options: argparse.Namespace) -> Iterator[Run]:
    left = options.count
    idle_since = time.monotonic()
    while left is None or left:
        wait = _POLL_SECONDS if options.follow else 0.0
        if options.wait is not None:
            wait = min(_POLL_SECONDS, max(options.wait - (time.monotonic() - idle_since), 0.0))
        taken = client.take(
            segment, options.group, records_max=min(left or 1000, 1000), seconds=wait, latest=options.latest
        )
        for run in taken.runs:
            if left is not None:
                left -= run.batch.count
            yield run
        if taken.runs:
            idle_since = time.monotonic()
        elif not options.follow and (options.wait is None or time.monotonic() - idle_since >= options.wait):
            return


# -- dead letters ------------------------------------------------------------------------------------------------------


def dead(options: argparse.Namespace) -> int:
    """Show dead letters, or publish them again where they came from."""
    if options.apply and not options.send_back:
        raise CommandError("--apply is for --send-back", USAGE)
    if options.all and options.send_back:
        raise CommandError("--send-back sends what was not sent back before: leave out --all", USAGE)
    with storage(options) as client:
        with about(options.topic):
            segment = client.segment(options.topic)
        runs = client.read(segment.id, segment.first_number) if options.all else _unsent(client, segment.id)
        letters = _letters(segment.name, runs)
        chosen = [(number, each) for number, each in letters if options.group in (None, each["group"])]
        if options.send_back:
            _send_back(client, segment, chosen, options)
        client.leave(segment.id, SENT_BACK)
    if options.send_back:
        return 0
    if options.json:
        for number, each in chosen:
            print_json({"dead_offset": number, **each})
        return 0
    rows = [
        (number, each["topic"], each["offset"], each["group"], each["deliveries"], _why(each), _text(each))
        for number, each in chosen
    ]
    print_table(("offset", "from", "at", "group", "deliveries", "why", "message"), rows)
    if not rows:
        say(f"{options.topic} has no dead letters that were not sent back")
    return 0


def _unsent(client: StorageClient, segment: int) -> Iterator[Run]:
    """The dead letters that were not sent back, as far as one member of a group may have them at once."""
    while runs := client.take(segment, SENT_BACK).runs:
        yield from runs


def _letters(topic: str, runs: Iterable[Run]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The dead letters of a topic, and their offsets. What is none ends the command: nothing is guessed."""
    for run in runs:
        for number, record in enumerate(run.batch.records(), run.number):
            try:
                letter = json.loads(bytes(record))
                if not {"topic", "offset", "group", "deliveries", "reason"} <= letter.keys():
                    raise ValueError
            except (ValueError, AttributeError):
                raise CommandError(f"{topic}: message {number} is no dead letter: is this the right topic?")
            yield number, letter


def _why(letter: dict[str, Any]) -> str:
    return f"{letter['reason']}: {letter['error']}" if letter.get("error") else str(letter["reason"])


def _text(letter: dict[str, Any]) -> str:
    text = str(letter.get("value", letter.get("value_base64", "")))
    return ascii(text[:40])[1:-1] + ("…" if len(text) > 40 else "")


def _send_back(
    client: StorageClient, segment: SegmentInfo, letters: list[tuple[int, dict[str, Any]]], options: argparse.Namespace
) -> None:
    from streamd.batch import Batch

    if options.apply:
        for number, letter in letters:
            value = letter.get("value")
            data = value.encode() if value is not None else b64decode(letter["value_base64"])
            with about(letter["topic"]):
                client.store(client.segment(letter["topic"]).id, Batch.of([data]))
            # One after the other: where this ends in between, one message comes twice, and none is lost.
            client.acknowledge(segment.id, SENT_BACK, [number])
    if options.json:
        print_json({"topic": segment.name, "messages": len(letters), "applied": options.apply})
        return
    print(f"{segment.name}: {counted(len(letters), 'message')} {'sent back' if options.apply else 'to be sent back'}")
    if not options.apply:
        say("nothing is changed yet: give --apply")
