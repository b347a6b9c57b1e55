"""Records as people see them: text as text, bytes as bytes, never anything that plays tricks."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.http.records import HEX_BYTES_SHOWN, RECORDS_SHOWN, TEXT_BYTES_SHOWN, latest, show
from tests.rigs.http.case import SiteCase


class ShowTests(SynchronousTestCase):
    @given(st.binary(max_size=3000))
    def test_any_bytes(self, record: bytes) -> None:
        """Whatever it is, it can be sent as JSON, is not long, and holds no character that moves or hides others."""
        told = show(record)
        self.assertEqual(told["bytes"], len(record))
        self.assertLessEqual(len(json.dumps(told)), 8 * TEXT_BYTES_SHOWN + 200)
        for char in told["shown"]:
            self.assertTrue(char in "\t\n" or unicodedata.category(char) not in ("Cc", "Cf", "Zl", "Zp"), repr(char))

    @given(st.text(max_size=2000))
    def test_any_text(self, text: str) -> None:
        """Text without control characters is shown as it is, cut at a whole character where it is long."""
        plain = "".join(
            char for char in text if unicodedata.category(char) not in ("Cc", "Cf", "Co", "Cn", "Zl", "Zp", "Cs")
        )
        data = plain.encode()
        told = show(data)
        self.assertEqual(told["kind"], "text")
        self.assertTrue(plain.startswith(told["shown"]))
        if len(data) <= TEXT_BYTES_SHOWN:
            self.assertEqual(told["shown"], plain)
        else:
            self.assertTrue(told["cut"])
            self.assertGreater(len(told["shown"].encode()), TEXT_BYTES_SHOWN - 4)

    def test_kinds(self) -> None:
        """What is text, what is not, and how it looks."""
        for record, kind, shown in (
            (b"", "text", ""),
            (b"two\nlines\tand a tab", "text", "two\nlines\tand a tab"),
            ("grüße 😀".encode(), "text", "grüße 😀"),
            (b"<script>alert(1)</script>", "text", "<script>alert(1)</script>"),
            ("abc\u202edcba and some more of it".encode(), "text", "abc\\u{202e}dcba and some more of it"),
            (b"some text in \x1b[31mred, which is an escape code", "text", None),
            (b"\x00\x01\x02AB", "hex", f"0000  00 01 02 41 42{' ' * 35}...AB"),
            (b"\xff" * 17, "hex", f"0000  {'ff ' * 16} {'.' * 16}\n0010  ff{' ' * 47}."),
            (memoryview(b"a view"), "text", "a view"),
        ):
            told = show(record)
            self.assertEqual(told["kind"], kind, bytes(record))
            if shown is not None:
                self.assertEqual(told["shown"], shown)
        self.assertIn("\\x1b[31m", show(b"some text in \x1b[31mred, which is an escape code")["shown"])

    def test_cut(self) -> None:
        """What is longer than is shown says so."""
        for record, cut in (
            (b"x" * TEXT_BYTES_SHOWN, False),
            (b"x" * (TEXT_BYTES_SHOWN + 1), True),
            (b"\xff" * HEX_BYTES_SHOWN, False),
            (b"\xff" * (HEX_BYTES_SHOWN + 1), True),
            (b"x" + "ü".encode() * 1000, True),
        ):
            self.assertEqual(show(record)["cut"], cut)


class LatestTests(SiteCase):
    def latest(self, *sizes: int) -> list[int]:
        """The sizes of the records that are shown of a segment with these."""
        name = f"segment-{len(self.rig.store)}"
        (segment,) = self.create(name)
        for size in sizes:
            self.rig.store.append(segment, Batch.of([b"x" * size]))
            self.rig.run()
        told = self.done(Deferred.fromCoroutine(latest(self.rig.store, segment)))
        self.assertEqual([each["number"] for each in told], list(range(len(sizes) - len(told), len(sizes))))
        return [each["bytes"] for each in told]

    def test_latest(self) -> None:
        """The last ones are shown, to the very last, whatever their sizes."""
        self.assertEqual(self.latest(), [])
        self.assertEqual(self.latest(5), [5])
        self.assertEqual(self.latest(*range(1, 50)), list(range(50 - RECORDS_SHOWN, 50)))
        self.assertEqual(self.latest(*[10] * 30, 300_000), [300_000])
        self.assertEqual(self.latest(300_000, 1, 2, 3), [300_000, 1, 2, 3])
        self.assertEqual(self.latest(300_000, 200_000, 100_000)[-1], 100_000)
        self.assertEqual(self.latest(0, 0, 0), [0, 0, 0])

    def test_one_commit(self) -> None:
        """Also where they came together."""
        (segment,) = self.create("a")
        self.rig.publish("a", *[b"%d" % number for number in range(5000)])
        told = self.done(Deferred.fromCoroutine(latest(self.rig.store, segment)))
        self.assertEqual([each["shown"] for each in told], [str(number) for number in range(4980, 5000)])
