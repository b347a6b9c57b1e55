"""The laws that a writer's stream of Fujin keeps like any connection of the others.

Not those that write and read on one connection, which are a writer's and a reader's streams here (`test_fujin` has
slow readers), nor those on the end of the daemon: it says STOP, and the client has time to disconnect.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.protocols.laws.fujin import Fujin
from tests.protocols.laws.held import HeldLaw
from tests.protocols.laws.test_breach import Breach, Oversize
from tests.protocols.laws.test_cut import Cut
from tests.protocols.laws.test_end import End, Lost
from tests.protocols.laws.test_slow import Slow
from tests.protocols.laws.test_time import Deadline, Http


class CutFujinTests(Cut, SynchronousTestCase):
    spoken = Fujin


class BreachFujinTests(Breach, SynchronousTestCase):
    spoken = Fujin


class OversizeFujinTests(Oversize, SynchronousTestCase):
    spoken = Fujin


class DeadlineFujinTests(Deadline, SynchronousTestCase):
    spoken = Fujin


class HttpFujinTests(Http, SynchronousTestCase):
    spoken = Fujin


class HalfClosedFujinTests(HeldLaw, SynchronousTestCase):
    spoken = Fujin
    try_end = End.try_end
    test_half_closed = End.test_half_closed


class LostFujinTests(HeldLaw, SynchronousTestCase):
    spoken = Fujin
    try_lost = Lost.try_lost
    test_anywhere = Lost.test_anywhere
    test_idle_disk = Lost.test_idle_disk
    test_power_cut = Lost.test_power_cut


class SlowFujinTests(HeldLaw, SynchronousTestCase):
    spoken = Fujin
    flood = Slow.flood
    test_flood = Slow.test_flood
    test_busy_disk = Slow.test_busy_disk
