"""``streamctl config check``: what the daemon would say of a configuration, without starting it."""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from streamd.cli.command import USAGE, CommandError, print_json

if TYPE_CHECKING:
    from streamd.config import Config

# A colon that separates: in a value one has a backslash before it.
_COLON: Final = re.compile(r"(?<!\\):")
_TABLE: Final = re.compile(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?\s*(?:#.*)?$")
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


def _wrong_address(loaded: Config) -> str | None:
    """What the daemon would find out when it listens: two on one port, or one that is open to everybody."""
    from twisted.internet.address import IPv4Address

    from streamd.access.exposure import is_exposed

    taken: dict[tuple[bool, str, str], str] = {}
    for each in loaded.services:
        name = each.protocol.name
        kind, port, *rest = [*_COLON.split(each.endpoint), ""]
        host = next((part[len("interface=") :] for part in rest if part.startswith("interface=")), "0.0.0.0")
        if not port.isdecimal():
            continue
        other = taken.setdefault((kind == "quic", port, host), name)
        if other != name and port != "0":
            return f"{name}.endpoint: {other} has port {port} already: give another one"
        if kind != "tcp" or loaded.insecure or (loaded.access and name != "http"):
            continue
        try:
            exposed = is_exposed(each.endpoint, IPv4Address("TCP", host.replace("\\", ""), int(port)))
        except ValueError:
            continue  # a name, which the daemon will look up
        if exposed:
            return (
                f"{name}.endpoint: it would be open to everybody: encrypt it (tlsfile:, ssl:), say who may do what "
                "([[access]]), listen on 127.0.0.1, or set insecure = true; see docs/security.md"
            )
    return None


def _with_line(file: str, text: str) -> str:
    """The text with the line of the key that it names, where that is found."""
    found = _KEY.match(text.removeprefix(f"{file}: "))
    if found is None:
        return text
    table, which, key = found[1], int(found[2] or 1), found[3]
    inside, seen = "", 0
    with open(file, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if header := _TABLE.match(line):
                inside = header[1]
                seen += inside == table
            here = inside == table and seen == which
            wanted = header is not None and here if key is None else here
            if wanted and (key is None or re.match(rf"\s*{re.escape(key)}\s*=", line)):
                return text.replace(f"{file}: ", f"{file}: line {number}: ", 1)
            if key is None and not inside and re.match(rf"\s*{re.escape(table)}\s*=", line):
                return text.replace(f"{file}: ", f"{file}: line {number}: ", 1)
    return text
