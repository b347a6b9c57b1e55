"""What the framed codecs share: frames of one size, cut and joined by the hundred."""

from __future__ import annotations

from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.wire.frames import alike, cut, payloads


class CutTests(SynchronousTestCase):
    @given(st.integers(0, 9), st.integers(0, 40), st.sampled_from([0, 1, 2, 255, 256, 257, 512, 700]))
    @settings(deadline=None, max_examples=100, derandomize=True)
    def test_any_frames(self, skip: int, size: int, count: int) -> None:
        """Frames of any size in any number give what stands in them, in order, from whatever buffer."""
        if not skip + size:
            return
        records = [bytes((number % 251,)) * size for number in range(count)]
        frames = b"".join(b"h" * skip + record for record in records)
        for buffer in (frames, bytearray(frames), memoryview(frames)):
            self.assertEqual(list(chain.from_iterable(cut(buffer, skip, size))), records)
            self.assertEqual(payloads(buffer, skip, size), b"".join(records))

    def test_at_a_time(self) -> None:
        """However many there are, only some hundreds are there at a time."""
        some = [len(each) for each in cut(bytes(10_000), 3, 7)]
        self.assertEqual(sum(some), 1000)
        self.assertLess(max(some), 500)


class AlikeTests(SynchronousTestCase):
    def test_one_that_differs(self) -> None:
        """Frames alike are counted up to the first that differs in a byte of its header, in any kind of buffer."""
        for count in (1, 3, 4, 5, 65, 200):
            for other in range(count + 1):
                frames = [bytearray(b"head, then data") for _ in range(count)]
                if other < count:
                    frames[other][other % 4] ^= 1
                whole = b"".join(frames)
                # Of few frames it may say that each is for itself.
                expected = other if other > 1 and count >= 4 else 1
                for buffer in (whole, bytearray(whole)):
                    self.assertEqual(alike(buffer, 0, 15, 4), expected, (count, other))
