"""Rules for tests, and a rig where they are in force."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.protocols.sesp import SespFactory
from streamd.settings import AccessRule, Limits
from tests.rigs.protocols.rig import Rig

RIG_ADDRESS = "192.168.1.1"
"""Where the rig's peers are."""


def rule(*allow: str, who: str = "anyone", topics: tuple[str, ...] = ("*",), **more: object) -> AccessRule:
    """A rule, for anyone and all topics where nothing else is said."""
    return AccessRule(who=who, allow=allow, topics=topics, **more)  # type: ignore[arg-type]


NOBODY = rule("read", who="user:0")
"""A rule that fits no peer of a rig: with it nothing is allowed."""


class RuledCase(SynchronousTestCase):
    """A rig whose rules a test changes as it goes."""

    def make(self, make_factory: Callable[[Core], StreamFactory] = SespFactory, limits: Limits = Limits()) -> Rig:
        """A rig without rules."""
        rig = Rig(self.mktemp(), limits=limits, make_factory=make_factory)
        self.addCleanup(rig.close)
        return rig

    def put(self, rig: Rig, *rules: AccessRule) -> None:
        """Put rules in force, for connections that are there too."""
        rig.core.access.replace(rules, rig.clock.seconds())
