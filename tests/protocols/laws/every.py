"""All descriptions, and what makes a test case of a law for each of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from twisted.trial.unittest import SynchronousTestCase

from tests.protocols.laws.description import Description
from tests.protocols.laws.faststream import FastStream
from tests.protocols.laws.fujin import Fujin, FujinTransactions
from tests.protocols.laws.fujin_readers import READERS, FujinConsumer
from tests.protocols.laws.pravega import Pravega
from tests.protocols.laws.pravega_today import PravegaToday
from tests.protocols.laws.sesp import Sesp
from tests.protocols.laws.smq import Smq

BOTH: Sequence[type[Description]] = (Sesp, Smq, FastStream, Pravega, PravegaToday)
"""Those that write and read on one connection."""
WRITING: Sequence[type[Description]] = (*BOTH, Fujin, FujinTransactions)
READING: Sequence[type[Description]] = (*BOTH, *READERS)
PROTOCOLS: Sequence[type[Description]] = (*WRITING, *READERS)
SERVED: Sequence[type[Description]] = (*WRITING, FujinConsumer)
"""Those that are tried on sockets too: of Fujin's readers, whose transcripts differ little, one."""
SERVED_READING: Sequence[type[Description]] = (*BOTH, FujinConsumer)

if TYPE_CHECKING:
    Case = SynchronousTestCase
else:
    # A law alone is no test case, or it would be run without a protocol.
    Case = object


class Law(Case):
    """Tests of one law, which are the same for each protocol."""

    spoken: type[Description]


L = TypeVar("L", bound=type[Law])


def every(protocols: Sequence[type[Description]]) -> Callable[[L], L]:
    """Make a test case of a law for each of these: of ``Cut`` there will be ``CutSespTests`` and others."""

    def make(law: L) -> L:
        module = sys.modules[law.__module__]
        for spoken in protocols:
            name = f"{law.__name__}{spoken.__name__}Tests"
            members = {"spoken": spoken, "__doc__": law.__doc__, "__module__": law.__module__}
            setattr(module, name, type(name, (law, SynchronousTestCase), members))
        return law

    return make
