"""``streamctl config check``: the daemon's checks of a configuration, without starting it."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from streamd.cli.command import USAGE, CommandError, print_json

if TYPE_CHECKING:
    from streamd.config import Config
    from streamd.interfaces import ConfigError


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "config", help="check a configuration", description="Check a configuration of the daemon."
    )
    own = parser.add_subparsers(metavar="ACTION", required=True)
    checking = own.add_parser(
        "check",
        help="check a configuration without starting anything",
        description="Check every value of a configuration as the daemon does when it starts, without starting it.",
    )
    checking.add_argument("file", metavar="FILE", help="the configuration, see streamd.toml(5)")
    checking.add_argument(
        "--json", action="store_true", help="print the resulting configuration with all defaults as JSON"
    )
    checking.set_defaults(run=check)


def check(options: argparse.Namespace) -> int:
    """Print that the configuration is good, or what is wrong with it."""
    from streamd.access.exposure import unmatched_rules
    from streamd.config import Overrides, load
    from streamd.interfaces import ConfigError
    from streamd.plugin import found_protocols

    try:
        # Parsers of endpoints keep the reactor for later and do nothing with it: any object will do.
        loaded = load(options.file, Overrides(), found_protocols(), object())
    except ConfigError as error:
        raise CommandError(_with_line(options.file, error), USAGE)
    if (wrong := _wrong_address(loaded)) is not None:
        raise CommandError(_with_line(options.file, wrong), USAGE)
    warnings = [
        _with_line(options.file, ConfigError(f"nobody can match this rule: {why}", "access", number - 1, "who"))
        for number, why in unmatched_rules(loaded)
    ]
    for text in warnings:
        print(f"streamctl: warning: {text}", file=sys.stderr)
    services = [{"protocol": service.protocol.name, "endpoint": service.endpoint} for service in loaded.services]
    if options.json:
        settings = {name: asdict(getattr(loaded, name)) for name in ("log", "store", "limits")}
        rules = [asdict(rule) for rule in loaded.retention]
        print_json(
            {"data_dir": loaded.data_dir, "services": services, "retention": rules, **settings, "warnings": warnings}
        )
        return 0
    print(f"{options.file}: good")
    print(f"data in {loaded.data_dir}")
    for service in services:
        print(f"{service['protocol']} on {service['endpoint']}")
    return 0


def _wrong_address(loaded: Config) -> ConfigError | None:
    """The error that the daemon would find when it listens: a port that is used twice, or an open listener."""
    from streamd.access.exposure import OPEN_TO_EVERYBODY, is_open_to_everybody, stated_address
    from streamd.interfaces import ConfigError

    taken: dict[tuple[str, str, int], str] = {}
    for service in loaded.services:
        name, address = service.protocol.name, stated_address(service.endpoint)
        if address is not None and address.port:
            other = taken.setdefault((address.type, address.host, address.port), name)
            if other != name:
                return ConfigError(f"{other} has port {address.port} already: give another one", name, "endpoint")
        if is_open_to_everybody(loaded, service.endpoint, address):
            return ConfigError(f"it {OPEN_TO_EVERYBODY}", name, "endpoint")
    return None


def _with_line(file: str, error: ConfigError) -> str:
    """The error with its file and the line of its key, where the file has that or its table."""
    from streamd.tables import parse, read_text
    from streamd.toml_lines import Lines

    place = file
    if error.path:
        text = read_text(file)
        if error.path[0] in parse(text):
            place = f"{file}: line {Lines(text).line(*error.path)}"
    return f"{place}: {str(error).removeprefix(f'{file}: ')}"
