"""What a protocol offers the daemon, and what the daemon gives it in return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.interfaces import IProtocolFactory

    from streamd.connections.core import Core


class ConfigError(Exception):
    """A value of the configuration that can't be used. The text names the key, and the file where there is one."""


class IReloadable(Interface):
    """An endpoint that has files of its own, which it can read again while it listens."""

    def reread() -> Callable[[], None]:
        """Read and check them, and change nothing; ValueError says what is wrong. What is returned uses them."""


class IStreamProtocol(Interface):
    """A wire protocol that streamd can serve, found with ``twisted.plugin.getPlugins``.

    A provider is small and imports its Protocol only in `factory`, since every ``twistd --help`` loads it.
    """

    name: str = Attribute("The word for this protocol: its option, its table in streamd.toml, its name in logs.")
    summary: str = Attribute("One line for --help.")
    default: str = Attribute("The endpoint to listen on where none is configured, or 'off'.")

    def configure(table: Mapping[str, object]) -> object:
        """Check the keys of its table (without ``endpoint``) and return its settings; ConfigError names a bad key.

        Where clients acknowledge in reader groups whose names are known, ``groups`` of the settings has them.
        """

    def factory(core: Core, settings: object) -> IProtocolFactory:
        """The Factory for one endpoint, with the settings that `configure` returned."""
