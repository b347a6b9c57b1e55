"""What a protocol offers the daemon, and what the daemon gives it in return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.interfaces import IProtocolFactory, IReactorTime

    from streamd.access.permits import Access
    from streamd.load import Load
    from streamd.metrics import LoopCounts
    from streamd.settings import Limits
    from streamd.store import Store


class ConfigError(Exception):
    """A value of the configuration that can't be used. The text names the key, and the file where there is one."""


def _everybody() -> Access:
    # Who only wants to know what a protocol is, as every twistd --help does, has no use for the store behind this.
    from streamd.access.permits import Access

    return Access()


def _loops() -> LoopCounts:
    from streamd.metrics import LoopCounts

    return LoopCounts()


@dataclass(eq=False)
class Core:
    """What every protocol is given: the one store, and what all connections share."""

    store: Store
    limits: Limits
    """Replaced when they change: ask for them here each time."""
    load: Load
    clock: IReactorTime
    started: float
    """When the daemon started, by that clock."""
    shared: dict[tuple[str, str], Any] = field(default_factory=dict)
    """What the endpoints of a protocol have in common, by its name and one of their own: a queue on two is one."""
    access: Access = field(default_factory=_everybody)
    """Who may do what; everybody everything, unless there are rules."""
    loops: LoopCounts = field(default_factory=_loops)
    """How often periodic jobs failed."""

    serving: Callable[[], bool] = field(default=lambda: True, compare=False)
    """Whether every endpoint is up, and the daemon is not about to end."""


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
