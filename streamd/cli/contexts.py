"""``streamctl context``: daemons by a name of your own, kept in a file, as a shell's user has several.

The file is TOML: ``current`` names the context that counts where nothing else is said, ``[contexts]`` has an address
for each name. It is ``streamd/contexts.toml`` in ``$XDG_CONFIG_HOME``, by default ``~/.config``.
"""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from streamd.cli.command import USAGE, CommandError, explained, print_json
from streamd.cli.show import print_table, say


class Contexts(NamedTuple):
    """What the file says."""

    current: str
    addresses: dict[str, str]


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "context", help="name daemons, and choose one", description="Keep addresses of daemons by name, and choose one."
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list them", description="List the contexts.")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(run=list_contexts)
    saving = actions.add_parser("set", help="name a daemon", description="Name a daemon. The first one is chosen, too.")
    saving.add_argument("name", metavar="NAME")
    saving.add_argument("address", metavar="ADDRESS", help="host, host:port, unix:PATH or tls:host:port:ca=FILE")
    saving.add_argument("--json", action="store_true", help="print what was done as JSON")
    saving.set_defaults(run=save)
    using = actions.add_parser("use", help="choose one", description="Choose the daemon of commands that name none.")
    using.add_argument("name", metavar="NAME")
    using.add_argument("--json", action="store_true", help="print what was done as JSON")
    using.set_defaults(run=use)
    removing = actions.add_parser("remove", help="forget one", description="Forget a context.")
    removing.add_argument("name", metavar="NAME")
    removing.add_argument("--json", action="store_true", help="print what was done as JSON")
    removing.set_defaults(run=remove)


def context_address(name: str | None) -> str | None:
    """The address of a context; without a name, of the one that the environment or the file chooses, if any does."""
    name = name or os.environ.get("STREAMD_CONTEXT")
    contexts = _read()
    chosen = name or contexts.current
    if not chosen:
        return None
    if chosen not in contexts.addresses:
        raise _unknown(chosen)
    return contexts.addresses[chosen]


def list_contexts(options: argparse.Namespace) -> int:
    """List them."""
    contexts = _read()
    rows = [
        {"name": name, "address": address, "current": name == contexts.current}
        for name, address in sorted(contexts.addresses.items())
    ]
    if options.json:
        print_json(rows)
        return 0
    print_table(
        ("context", "address", ""), [(r["name"], r["address"], "current" if r["current"] else "") for r in rows]
    )
    if not rows:
        say("there is no context: 'streamctl context set NAME ADDRESS' makes one")
    return 0


def save(options: argparse.Namespace) -> int:
    """Name a daemon."""
    from streamd.cli.connect import checked_address

    contexts = _read()
    contexts.addresses[options.name] = checked_address("ADDRESS", options.address)
    _write(Contexts(contexts.current or options.name, contexts.addresses))
    return _tell(options, contexts.addresses[options.name])


def use(options: argparse.Namespace) -> int:
    """Choose one."""
    contexts = _read()
    if options.name not in contexts.addresses:
        raise _unknown(options.name)
    _write(Contexts(options.name, contexts.addresses))
    return _tell(options, contexts.addresses[options.name])


def remove(options: argparse.Namespace) -> int:
    """Forget one."""
    contexts = _read()
    if contexts.addresses.pop(options.name, None) is None:
        raise _unknown(options.name)
    _write(Contexts("" if contexts.current == options.name else contexts.current, contexts.addresses))
    return _tell(options, None)


def _tell(options: argparse.Namespace, address: str | None) -> int:
    if options.json:
        print_json({"name": options.name, "address": address})
    else:
        print(f"{options.name}: {address or 'removed'}")
    return 0


def _unknown(name: str) -> CommandError:
    return CommandError(f"there is no context {name!r}: 'streamctl context list' shows all of them", USAGE)


def _path() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "streamd" / "contexts.toml"


def _read() -> Contexts:
    path = _path()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Contexts("", {})
    except OSError as error:
        raise CommandError(explained(error))
    except ValueError as error:
        raise CommandError(f"{path}: not valid TOML: {error}", USAGE)
    current, addresses = table.get("current", ""), table.get("contexts", {})
    if not isinstance(current, str) or not isinstance(addresses, dict):
        raise CommandError(f"{path}: expected a text as current, and a table [contexts]", USAGE)
    if not all(isinstance(address, str) for address in addresses.values()):
        raise CommandError(f"{path}: expected an address for each name in [contexts]", USAGE)
    return Contexts(current, dict(addresses))


def _write(contexts: Contexts) -> None:
    # A string of JSON is one of TOML, too.
    lines = [f"{json.dumps(name)} = {json.dumps(address)}\n" for name, address in sorted(contexts.addresses.items())]
    path = _path()
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(f"current = {json.dumps(contexts.current)}\n\n[contexts]\n{''.join(lines)}", encoding="utf-8")
        new.rename(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise CommandError(explained(error))
