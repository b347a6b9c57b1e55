"""``streamctl config check``: what the daemon would say of a configuration, without starting it."""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from streamd.cli.command import USAGE, CommandError, print_json

if TYPE_CHECKING:
    from streamd.config import Config

_KEY: Final = re.compile(r"([\w-]+)(?:\[(\d+)\])?(?:\.([\w-]+))?: ")


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "config", help="check a configuration", description="Look at a configuration of the daemon."
    )
    own = parser.add_subparsers(metavar="ACTION", required=True)
    checking = own.add_parser(
        "check",
        help="check a configuration, and start nothing",
        description="Check every value of a configuration as the daemon does at its start, and start nothing.",
    )
    checking.add_argument("file", metavar="FILE", help="the configuration, see streamd.toml(5)")
    checking.add_argument("--json", action="store_true", help="print what counts in the end, defaults and all, as JSON")
    checking.set_defaults(run=check)


def check(options: argparse.Namespace) -> int:
    """Say that it is good, or what is not."""
    from streamd.access.exposure import unmatched_rules
    from streamd.config import Overrides, load
    from streamd.interfaces import ConfigError
    from streamd.plugin import found_protocols

    try:
        # Parsers of endpoints keep the reactor for later and do nothing with it: any object will do.
        loaded = load(options.file, Overrides(), found_protocols(), object())
    except ConfigError as error:
        raise CommandError(_with_line(options.file, str(error)), USAGE)
    if (wrong := _wrong_address(loaded)) is not None:
        raise CommandError(_with_line(options.file, f"{options.file}: {wrong}"), USAGE)
    warnings = [
        _with_line(options.file, f"{options.file}: access[{number}].who: nobody can match this rule: {why}")
        for number, why in unmatched_rules(loaded)
    ]
    for text in warnings:
        print(f"streamctl: warning: {text}", file=sys.stderr)
    services = [{"protocol": each.protocol.name, "endpoint": each.endpoint} for each in loaded.services]
    if options.json:
        told = {name: asdict(getattr(loaded, name)) for name in ("log", "store", "limits")}
        rules = [asdict(each) for each in loaded.retention]
        print_json(
            {"data_dir": loaded.data_dir, "services": services, "retention": rules, **told, "warnings": warnings}
        )
        return 0
    print(f"{options.file}: good")
    print(f"data in {loaded.data_dir}")
    for each in services:
        print(f"{each['protocol']} on {each['endpoint']}")
    return 0


def _wrong_address(loaded: Config) -> str | None:
    """What the daemon would find out when it listens: two on one port, or one that is open to everybody."""
    from streamd.access.exposure import OPEN_TO_EVERYBODY, is_open_to_everybody, stated_address

    taken: dict[tuple[str, str, int], str] = {}
    for each in loaded.services:
        name, address = each.protocol.name, stated_address(each.endpoint)
        if address is not None and address.port:
            other = taken.setdefault((address.type, address.host, address.port), name)
            if other != name:
                return f"{name}.endpoint: {other} has port {address.port} already: give another one"
        if is_open_to_everybody(loaded, each.endpoint, address):
            return f"{name}.endpoint: it {OPEN_TO_EVERYBODY}"
    return None


def _with_line(file: str, text: str) -> str:
    """The text with the line of the key that it names, where the file has that or its table."""
    from streamd.toml_lines import Lines

    found = _KEY.match(text.removeprefix(f"{file}: "))
    if found is None:
        return text
    table, which, key = found[1], found[2], found[3]
    with open(file, encoding="utf-8") as opened:
        content = opened.read()
    if table not in tomllib.loads(content):
        return text
    path = [table, *([int(which) - 1] if which else []), *([key] if key else [])]
    return text.replace(f"{file}: ", f"{file}: line {Lines(content).line(*path)}: ", 1)
