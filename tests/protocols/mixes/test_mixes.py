"""Any mix of requests is answered as if each had been sent alone."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from tests.protocols.mixes.faststream import FastStream
from tests.protocols.mixes.machinery import Mix, Speaker, seeds
from tests.protocols.mixes.pravega import Pravega
from tests.protocols.mixes.sesp import Sesp
from tests.protocols.mixes.smq import Smq
from tests.protocols.mixes.tools import Tools


class MixCase(SynchronousTestCase):
    """The law, for one protocol."""

    def try_mixes(self, speaker: type[Speaker]) -> None:
        """On one connection, and with fewer requests on two or three that use the same topics."""
        for seed in seeds():
            random = Random(seed)
            connections, requests = random.choice(((1, 40), (1, 12), (2, 8), (3, 8)))
            mix = Mix(speaker(random), connections, requests)
            mix.run()
            self.assertIsNotNone(mix.answers(), f"seed {seed}: no order of these is answered so\n{mix.explain()}")
            mix.rig.close()
            self.assertEqual(mix.rig.load.held_bytes, 0, f"seed {seed}")

    def test_sesp(self) -> None:
        """SESP."""
        self.try_mixes(Sesp)

    def test_smq(self) -> None:
        """Simple Message Queue."""
        self.try_mixes(Smq)

    def test_faststream(self) -> None:
        """FastStreamDB."""
        self.try_mixes(FastStream)

    def test_pravega(self) -> None:
        """Pravega's append blocks."""
        self.try_mixes(Pravega)

    def test_tools(self) -> None:
        """The messages for tools."""
        self.try_mixes(Tools)
