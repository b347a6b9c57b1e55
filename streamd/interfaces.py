"""What a protocol offers the daemon, what the daemon gives it in return, and the errors that both know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred
    from twisted.internet.interfaces import IProtocolFactory, IStreamServerEndpoint

    from streamd.connections.core import Core


class ConfigError(Exception):
    """A value in a file of settings that can't be used. Its text names the file, where there is one, and the key.

    :param path: the path of the key: keys, and indexes in arrays of tables, from 0.
    """

    def __init__(self, text: str, *path: str | int, file: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.path = path
        self.file = file

    def __str__(self) -> str:
        key = "".join(f"[{step + 1}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return ": ".join(part for part in (self.file, key.removeprefix("."), self.text) if part)

    def within(self, *path: str | int) -> ConfigError:
        """The same error with `path` in front, for the caller that knows where the checked table is."""
        return type(self)(self.text, *path, *self.path, file=self.file)


class RequestError(Exception):
    """A request that can't be met: the protocol answers it in its own words, and the connection goes on.

    The store's errors are of this kind, and so is what the rules of access refuse.
    """


class IReloadable(Interface):
    """An endpoint with files of its own, which it can read again while it listens."""

    def reread() -> Callable[[], None]:
        """Read and check the files, and change nothing; ValueError says what is wrong. Call the result to use them."""


class IDrained(Interface):
    """A factory whose connections end in order when the daemon stops. Those of other factories are cut off."""

    drain_seconds_max: float = Attribute("How long its connections get to end.")

    def drain() -> Deferred[Any]:
        """Answer pending requests and end all connections; fires when they are gone, within `drain_seconds_max`."""


class IEquipping(Interface):
    """A factory that can supply what the string of its endpoint left open, such as a certificate."""

    def equip(endpoint: IStreamServerEndpoint, data_dir: str) -> IStreamServerEndpoint:
        """The endpoint to listen on in place of this one, or the same. OSError says why there is none."""


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
        """The Factory for one endpoint, with the settings that `configure` returned.

        It may also provide `IDrained` and `IEquipping`.
        """
