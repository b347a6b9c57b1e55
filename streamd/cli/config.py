"""``streamctl config check``: what the daemon would say of a configuration, without starting it."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from streamd.cli.command import USAGE, CommandError, print_json


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
    from streamd.config import Overrides, load
    from streamd.interfaces import ConfigError
    from streamd.plugin import found_protocols

    try:
        # Parsers of endpoints keep the reactor for later and do nothing with it: any object will do.
        loaded = load(options.file, Overrides(), found_protocols(), object())
    except ConfigError as error:
        raise CommandError(str(error), USAGE)
    services = [{"protocol": each.protocol.name, "endpoint": each.endpoint} for each in loaded.services]
    if options.json:
        told = {name: asdict(getattr(loaded, name)) for name in ("log", "store", "limits")}
        rules = [asdict(each) for each in loaded.retention]
        print_json({"data_dir": loaded.data_dir, "services": services, "retention": rules, **told})
        return 0
    print(f"{options.file}: good")
    print(f"data in {loaded.data_dir}")
    for each in services:
        print(f"{each['protocol']} on {each['endpoint']}")
    return 0
