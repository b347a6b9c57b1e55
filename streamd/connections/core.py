"""What every protocol is given: the one store, and what all connections share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from twisted.internet.interfaces import IAddress, IReactorTime

from streamd.access.permits import Access
from streamd.connections.load import Load
from streamd.metrics import LoopCounts
from streamd.settings import Limits
from streamd.store import Store


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
    access: Access = field(default_factory=Access)
    """Who may do what; everybody everything, unless there are rules."""
    loops: LoopCounts = field(default_factory=LoopCounts)
    """How often periodic jobs failed."""
    addresses: dict[str, list[IAddress]] = field(default_factory=dict)
    """Where each protocol listens, by its name."""

    serving: Callable[[], bool] = field(default=lambda: True, compare=False)
    """Whether every endpoint is up, and the daemon is not about to end."""
