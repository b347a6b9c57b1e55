"""``twistd streamd``: its options, and the service they make."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, NoReturn

from twisted.application.service import IService
from twisted.python import usage

from streamd import __version__, config
from streamd.interfaces import ConfigError, IStreamProtocol
from streamd.plugin import found_protocols
from streamd.settings import LogSettings, StoreSettings

_EPILOGUE = """\
ENDPOINT is a Twisted server endpoint (tcp:4840:interface=127.0.0.1, unix:/run/streamd/sesp.sock, tlsfile:..., ssl:...);
off turns the service off; several endpoints are several options. An option wins over the file. See streamd(8) and
streamd.toml(5)."""


class BaseOptions(usage.Options):
    """The options that do not depend on which protocols there are."""

    synopsis = "[options]"
    longdesc = _EPILOGUE
    optParameters = [
        ["config", None, None, "Read this file, see streamd.toml(5)."],
        ["data-dir", None, None, f"The directory of the store.  [default: {config.DATA_DIR}]"],
    ]
    optFlags = [
        ["insecure", None, "Listen beyond loopback although neither TLS nor a rule of access protects it."],
    ]
    protocols: Sequence[IStreamProtocol] = ()

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.endpoints: dict[str, list[str]] = {}
        self.chosen: dict[tuple[str, str], str] = {}

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse the command line. An error is one line, where twistd would print its whole usage and the error last."""
        try:
            super().parseOptions(options)  # type: ignore[no-untyped-call]
        except usage.UsageError as error:
            _refuse(f"{error}; see twistd streamd --help")

    def opt_version(self) -> NoReturn:
        """Show the version and exit."""
        print(f"streamd {__version__}")
        raise SystemExit(0)

    def overrides(self) -> config.Overrides:
        """The given options, as `config.load` takes them."""
        of: dict[str, dict[str, str]] = {"log": {}, "store": {}}
        for (table, key), value in self.chosen.items():
            of[table][key] = value
        return config.Overrides(
            self["data-dir"], of["log"], of["store"], self.endpoints, insecure=bool(self["insecure"])
        )


def options_for(protocols: Sequence[IStreamProtocol]) -> type[BaseOptions]:
    """A class of options with one for each protocol and one for each setting that has an option."""
    methods: dict[str, Any] = {
        "protocols": protocols,
        "opt_log_format": _choice("log-format", LogSettings, "log", "format"),
        "opt_log_level": _choice("log-level", LogSettings, "log", "level"),
        "opt_sync": _choice("sync", StoreSettings, "store", "sync"),
    }
    for protocol in protocols:
        methods[f"opt_{protocol.name.replace('-', '_')}"] = _endpoint(protocol)
    return type("Options", (BaseOptions,), methods)


def Options() -> BaseOptions:
    """What twistd calls to parse the rest of its command line."""
    try:
        return options_for(found_protocols())()
    except ConfigError as error:
        _refuse(str(error))


def makeService(options: BaseOptions) -> IService:
    """Make the service for these options. Everything is checked here, and nothing is opened."""
    # The only import of the reactor: whoever needs it is given it.
    from twisted.internet import reactor as installed

    from streamd.daemon.log import open_log
    from streamd.daemon.notify import Notifier
    from streamd.metrics import LoopCounts
    from streamd.service import StreamdService

    # Twisted's clock is the wall clock: set back by an hour, it would freeze every timer for that hour. This one only
    # goes forward. It has to be there before the first callLater, whose times count from it.
    reactor: Any = installed  # it is more than the one interface that Twisted's annotation gives it
    reactor.seconds = time.monotonic

    path = options["config"]
    # twistd changes its directory after this, and the file is read again on SIGHUP.
    again = None if path is None else os.path.abspath(path)

    def read(path: str | None = again) -> config.Config:
        return config.load(path, options.overrides(), options.protocols, reactor)

    try:
        loaded = read(path)
    except ConfigError as error:
        _refuse(str(error))
    log = open_log(loaded.log, options.parent or {}, reactor)
    loops = LoopCounts()
    notifier = Notifier.from_environment(os.environ, reactor, loops)
    return StreamdService(loaded, reactor, log, read, notifier=notifier, loops=loops)


def _choice(option: str, settings: type, table: str, key: str) -> Callable[[BaseOptions, str], None]:
    """An option that sets one key of a table, with the choices, the text and the default of that key."""
    field = next(candidate for candidate in fields(settings) if candidate.name == key)
    choices = field.metadata["choices"]

    def choose(self: BaseOptions, value: str) -> None:
        if value not in choices:
            raise usage.UsageError(f"--{option}: expected one of {', '.join(choices)}; got {value!r}")
        self.chosen[table, key] = value

    doc: str = field.metadata["doc"]
    choose.__doc__ = f"{doc[0].upper()}{doc[1:]} ({', '.join(choices)}).  [default: {field.default}]"
    return choose


def _endpoint(protocol: IStreamProtocol) -> Callable[[BaseOptions, str], None]:
    """An option that adds an endpoint for a protocol."""
    name = protocol.name

    def add(self: BaseOptions, endpoint: str) -> None:
        self.endpoints.setdefault(name, []).append(endpoint)

    add.__doc__ = f"ENDPOINT for {protocol.summary}.  [default: {protocol.default}]"
    return add


def _refuse(reason: str) -> NoReturn:
    """Exit before anything is opened, with one line that says why."""
    print(f"streamd: {reason}", file=sys.stderr)
    raise SystemExit(1)
