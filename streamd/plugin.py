"""The provider that stands for a protocol in a plugin file.

Twisted loads every plugin file for every ``twistd --help``, so a provider knows its protocol's module by name and
imports it when the daemon really serves it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from twisted.plugin import IPlugin, getPlugins
from zope.interface import implementer

from streamd.interfaces import ConfigError, IStreamProtocol

if TYPE_CHECKING:
    from twisted.internet.interfaces import IProtocolFactory

    from streamd.connections.core import Core

_NAME = re.compile(r"[a-z][a-z0-9_]*")

# A protocol's name is an option and a table of streamd.toml; these are taken.
_RESERVED = frozenset(
    {"access", "config", "data_dir", "help", "insecure", "limits", "log", "log_format", "log_level", "retention"}
    | {"store", "sync", "version"}
)


@implementer(IPlugin, IStreamProtocol)
class ProtocolPlugin:
    """A protocol whose module has two functions: ``configure(table)`` and ``factory(core, settings)``."""

    def __init__(self, name: str, module: str, default: str, summary: str) -> None:
        self.name = name
        self.module = module
        self.default = default
        self.summary = summary

    def configure(self, table: Mapping[str, object]) -> object:
        """The settings in the protocol's table; ConfigError names a key that can't be used."""
        settings: object = self._load().configure(table)
        return settings

    def factory(self, core: Core, settings: object) -> IProtocolFactory:
        """The Factory for one endpoint."""
        made: IProtocolFactory = self._load().factory(core, settings)
        return made

    def _load(self) -> Any:
        return import_module(self.module)


def found_protocols() -> list[IStreamProtocol]:
    """All installed protocols, by name. ConfigError where two have the same name."""
    protocols: dict[str, IStreamProtocol] = {}
    for protocol in getPlugins(IStreamProtocol):
        if protocol.name in protocols:
            raise ConfigError(f"two plugins offer a protocol called {protocol.name}")
        if not _NAME.fullmatch(protocol.name) or protocol.name in _RESERVED:
            raise ConfigError(f"a plugin offers a protocol called {protocol.name!r}, which can't be an option's name")
        protocols[protocol.name] = protocol
    return [protocols[name] for name in sorted(protocols)]
