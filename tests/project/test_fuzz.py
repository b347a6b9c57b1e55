"""The fuzzer's laws, without the fuzzer: they hold for all it begins with, and each of them can be broken."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from fuzz import __main__ as command
from fuzz.codec import CodecLaws
from fuzz.law import LawBroken, cut, uncut
from fuzz.targets import TARGETS, Target
from fuzz.wires import TRANSCRIPTS, WIRES
from streamd.wire import WireError

CHANGES = 60


def changed(seed: bytes, rng: Random) -> bytes:
    """A seed with some bytes replaced, taken out or put in."""
    data = bytearray(seed)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        data[at : at + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 2))
    return bytes(data)


class TargetTests(SynchronousTestCase):
    def test_seeds(self) -> None:
        """Each target holds for each of its seeds, of which there are some, and for nothing at all."""
        for name, target in TARGETS.items():
            seeds = target.seeds()
            self.assertGreater(len(seeds), 1, name)
            for seed in (b"", *seeds):
                target.check(seed)

    def test_changed_seeds(self) -> None:
        """And for seeds that are changed a little, the same ones each time."""
        for name, target in TARGETS.items():
            rng = Random(name)
            seeds = target.seeds()
            for _ in range(CHANGES):
                target.check(changed(rng.choice(seeds), rng))

    def test_wires(self) -> None:
        """Each codec has a transcript in which all is well: as many requests in pieces as at once, none broken."""
        self.assertEqual(list(WIRES), list(TRANSCRIPTS))
        for name, laws in WIRES.items():
            for data in TRANSCRIPTS[name]:
                codec = laws.make()
                self.assertGreater(len(laws.singles(codec.receive(data))), 5, name)
                self.assertEqual((codec.error, codec.buffered), (None, 0), name)


class CutTests(SynchronousTestCase):
    def test_cut(self) -> None:
        """An input is some bytes and where they are cut, and any input is one."""
        self.assertEqual(cut(uncut(b"abcdef", (2, 5))), (b"abcdef", [b"ab", b"cde", b"f"]))
        self.assertEqual(cut(uncut(b"abcdef")), (b"abcdef", [b"abcdef"]))
        self.assertEqual(cut(b""), (b"", [b""]))
        rng = Random(1)
        for size in range(80):
            whole, pieces = cut(rng.randbytes(size))
            self.assertEqual(b"".join(pieces), whole)


class Toy:
    """A codec whose requests are single letters, until one is a question mark; each test breaks it in one way."""

    def __init__(self) -> None:
        self.error: WireError | None = None
        self.buffered = 0

    def receive(self, data: bytes) -> Iterable[Any]:
        letters = [chr(byte) for byte in data]
        if "?" in letters:
            self.error = WireError("a question mark")
        return letters[: letters.index("?")] if "?" in letters else letters


class KeepsTooMuch(Toy):
    def receive(self, data: bytes) -> Iterable[Any]:
        self.buffered = len(data) + 1
        return super().receive(data)


class KeepsAfterwards(Toy):
    def receive(self, data: bytes) -> Iterable[Any]:
        found = list(super().receive(data))
        self.buffered = int(self.error is not None)
        return found


class Stumbles(Toy):
    def receive(self, data: bytes) -> Iterable[Any]:
        return [{97: "a"}[byte] for byte in data]


class SeesPieces(Toy):
    def receive(self, data: bytes) -> Iterable[Any]:
        return [len(data)]


class Allocates(Toy):
    def receive(self, data: bytes) -> Iterable[Any]:
        self.room = bytes(int.from_bytes(data[-3:], "big"))
        return super().receive(data)


def toy_laws(make: Callable[[], Any], **others: Any) -> CodecLaws:
    return CodecLaws(make, list, others.pop("encode", lambda letter: str(letter).encode("latin-1")), **others)


class LawTests(SynchronousTestCase):
    """What is wrong with a codec is found."""

    def test_good(self) -> None:
        """A codec that does all well is left alone."""
        for data in (b"abc", b"ab?", b"?", bytes(range(256))):
            toy_laws(Toy).check(uncut(data, (1, 2)))

    def test_broken(self) -> None:
        """One that keeps too much, stumbles, depends on the pieces, or believes in sizes is not."""
        for broken, data, error in (
            (KeepsTooMuch, b"abc", LawBroken),
            (KeepsAfterwards, b"ab?", LawBroken),
            (Stumbles, b"abc", KeyError),
            (SeesPieces, b"abc", LawBroken),
            (Allocates, b"ab\xff\0\0", LawBroken),
        ):
            self.assertRaises(error, toy_laws(broken).check, uncut(data, (2,)))

    def test_encoding(self) -> None:
        """So is one whose requests are others once they are encoded and decoded."""
        check = toy_laws(Toy, encode=lambda letter: letter.upper().encode("latin-1")).check
        self.assertRaises(LawBroken, check, uncut(b"abc"))
        check(uncut(b"ABC"))

    def test_replies(self) -> None:
        """Replies are made of the pieces."""
        told: list[list[bytes]] = []
        toy_laws(Toy, replies=told.append).check(uncut(b"abc", (1,)))
        self.assertEqual(told, [[b"a", b"bc"]])


class CommandTests(SynchronousTestCase):
    def test_replay(self) -> None:
        """An input is tried again by the command that the fuzzer names: 0 where it is fine, 1 where it breaks."""
        path = Path(os.path.abspath(self.mktemp()))
        said = StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            for name, target in islice(TARGETS.items(), 2):
                path.write_bytes(target.seeds()[0])
                self.assertEqual(command.main([name, str(path)]), 0)
            broken = Target(toy_laws(Stumbles).check, list)
            self.assertEqual(command.replay("toy", broken, path), 1)
        self.assertIn("KeyError", said.getvalue())
        self.assertIn(f"toy: {path} breaks it", said.getvalue())

    def test_stranger(self) -> None:
        """A target that there is not is named, beside those that there are."""
        error = self.assertRaises(SystemExit, command.main, ["nonsense"])
        self.assertIn("nonsense; there are sesp, smq,", str(error.code))
