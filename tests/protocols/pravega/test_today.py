"""Pravega as it is spoken today, where the laws of all protocols do not look: writers, merges, truncation."""

from __future__ import annotations

from streamd.protocols.pravega.protocol import PravegaSettings
from streamd.wire.pravega.events import HEADER
from streamd.wire.pravega.tables import REQUESTS as TABLES
from streamd.wire.pravega.today import REQUESTS
from tests.rigs.access.rules import NOBODY, rule
from tests.rigs.protocols.pravega_today_case import TodayCase
from tests.rigs.wire.pravega_today import (
    NEVER,
    WELCOME,
    WRITER,
    append,
    appended,
    conditional,
    create,
    created,
    data,
    error,
    event,
    key,
    long,
    many,
    message,
    named,
    read,
    ready,
    segment_read,
    setup,
    text,
    truncate,
    update,
)

NAME = "scope/stream/0.#epoch.0"


class VersionTests(TodayCase):
    def test_versions(self) -> None:
        """Who speaks only versions that are not spoken here is told so, and closed."""
        for high, low, is_closed in ((15, 5, False), (17, 17, False), (30, 17, False), (4, 1, True), (30, 18, True)):
            peer = self.rig.connect()
            hello = HEADER.pack(-127, 8) + high.to_bytes(4) + low.to_bytes(4)
            self.assertEqual(peer.ask(hello), WELCOME)
            self.assertEqual(peer.closed, is_closed, (high, low))


class WriterTests(TodayCase):
    def setUp(self) -> None:
        super().setUp()
        self.assertEqual(self.peer.ask(create(NAME) + setup(NAME)), created(NAME) + ready(NAME))

    def test_idempotent(self) -> None:
        """A writer's id, chosen by the caller, keeps its event number over connections and restarts."""
        self.assertEqual(self.peer.ask(append(7, event(b"a"))), appended(7, NEVER, 9))
        self.assertEqual(self.connect().ask(setup(NAME)), ready(NAME, 7))
        self.restart()
        self.assertEqual(self.peer.ask(setup(NAME) + append(9, event(b"b"))), ready(NAME, 7) + appended(9, 7, 18))

    def test_compare(self) -> None:
        """Of two connections with one writer's id the first one's append counts; the other is told and closed."""
        other = self.connect()
        other.ask(setup(NAME))
        self.assertEqual(self.peer.ask(append(1, event(b"a"))), appended(1, NEVER, 9))
        refusal = message(55, WRITER, long(3), text(""), long(1))
        self.assertEqual(other.ask(append(1, event(b"b")) + append(2, event(b"c"))), refusal)
        self.assertTrue(other.closed)
        self.assertEqual(self.peer.ask(append(1, event(b"again"))), refusal)
        self.assertEqual(self.rig.store.find(NAME).number, 1)

    def test_full(self) -> None:
        """Without room the connection is closed, and the writer goes on where it was."""
        self.peer.ask(append(1, event(b"a")))
        self.rig.disk.full = True
        self.assertEqual(self.peer.ask(append(2, event(bytes(15_000))) * 1), b"")
        self.rig.disk.full = False
        self.rig.advance(2)
        self.assertEqual(self.connect().ask(setup(NAME) + append(2, event(b"b"))), ready(NAME, 1) + appended(2, 1, 18))

    def test_raw(self) -> None:
        """Bytes come back at their offsets, wherever they are cut; what looks like events is raw, too."""
        raw = event(b"no event, but bytes") * 8000
        self.assertEqual(self.peer.ask(conditional(1, 0, raw)), appended(1, NEVER, len(raw)))
        for offset in (0, 5, (128 << 10) - 10, 128 << 10, len(raw) - 1):
            whole = segment_read(NAME, offset, raw[offset : offset + 10], tail=offset + 10 >= len(raw))
            self.assertEqual(self.peer.ask(read(NAME, offset, 10)), whole)

    def test_truncate(self) -> None:
        """Truncation counts bytes, never goes back, and outlives a restart."""
        self.peer.ask(conditional(1, 0, bytes(range(100))))
        for offset, head in ((10, 10), (5, 10), (50, 50), (100, 100)):
            self.assertEqual(self.peer.ask(truncate(NAME, offset)), message(39, long(5), text(NAME)))
            self.restart()
            gone = message(56, long(4), text(NAME), long(head), text(""), long(head - 1))
            self.assertEqual(self.peer.ask(read(NAME, head - 1, 1)), gone)
            if head < 100:
                self.assertEqual(
                    self.peer.ask(read(NAME, head, 1)), segment_read(NAME, head, bytes([head]), tail=False)
                )
        self.assertEqual(self.peer.ask(truncate(NAME, 101))[:4], (61).to_bytes(4))

    def test_merge(self) -> None:
        """A merge is done once, with its attributes, however often it is asked for; after a restart too."""
        answer = self.peer.ask(message(40, long(5), WRITER, text(NAME), text("")))
        transient = answer[18:].decode()
        self.assertEqual(transient[:-32], NAME + "#transient.")
        self.assertEqual(self.peer.ask(setup(transient)), ready(transient))
        self.peer.ask(conditional(0, 0, event(b"large")[:6]) + conditional(1, 6, event(b"large")[6:]))
        update = (1).to_bytes(4) + bytes(16) + b"\4" + long(5, NEVER)
        merge = message(58, long(5), text(NAME), text(transient), text(""), update)
        merged = message(59, long(5), text(NAME), text(transient), long(13))
        self.assertEqual(self.peer.ask(merge + merge), merged * 2)
        self.restart()
        self.assertEqual(self.peer.ask(merge), merged)
        self.assertEqual(self.peer.ask(message(34, long(5), text(NAME), bytes(16), text(""))), message(35, long(5, 5)))
        self.assertEqual(self.peer.ask(read(NAME, 0, 99)), segment_read(NAME, 0, event(b"large")))
        self.assertEqual(self.peer.ask(setup(transient)), error(53, transient, -1, id=2))


class ForgottenTests(TodayCase):
    settings = PravegaSettings(writer_seconds_max=100.0)

    def test_forgotten(self) -> None:
        """A writer that was not seen for the set time is new again; one that is connected, or writes, is not."""
        self.peer.ask(create(NAME) + create("plain"))
        names = {b"%016d" % number: number for number in range(3)}
        for writer in names:
            self.peer.ask(setup(NAME, writer) + append(1, event(b"x"), writer))
            self.peer.ask(setup("plain", writer) + append(1, event(b"x"), writer))
        self.peer.drop()
        self.peer = self.connect()
        connected, writing, silent = names
        self.peer.ask(setup(NAME, connected))
        for number in range(2, 6):
            self.rig.advance(60)
            other = self.connect()
            other.ask(setup(NAME, writing) + append(number, event(b"x"), writing))
            other.drop()
        levels = self.rig.store.find(NAME).levels
        self.assertEqual(levels, {connected: 1, writing: 5})
        self.assertEqual(len(self.rig.store.find("plain").levels or ()), 3)
        self.restart()
        self.assertEqual(self.peer.ask(setup(NAME, silent)), ready(NAME, NEVER, silent))


class RightTests(TodayCase):
    def test_rights(self) -> None:
        """Without its right a request is refused and changes nothing; with it alone it is not."""
        table = "scope/group_kvtable/0.#epoch.0"
        requests = [
            (setup(NAME), "write", NAME),
            (read(NAME, 0, 10), "read", NAME),
            (named(11, NAME), "read", NAME),
            (create("scope/new/0.#epoch.0"), "create", "scope/new/0.#epoch.0"),
            (message(40, long(5), WRITER, text(NAME), text("")), "write", NAME),
            (message(32, long(5), text(NAME), bytes(5), text("")), "admin", NAME),
            (message(34, long(5), text(NAME), bytes(16), text("")), "read", NAME),
            (message(36, long(5), text(NAME), bytes(16), long(7, NEVER), text("")), "write", NAME),
            (message(41, long(5), text(NAME), long(0), text("")), "read", NAME),
            (message(70, long(5), text("t"), text("")), "create", "t"),
            (named(68, table), "read", table),
            (update(table, (b"k", NEVER, b"v")), "write", table),
            (message(76, long(6), text(table), text(""), many(key(b"k")), long(-1)), "write", table),
            (message(78, long(6), text(table), text(""), many(key(b"k"))), "read", table),
            (message(83, long(6), text(table), text(""), bytes(4), data(b"")), "read", table),
            (message(85, long(6), text(table), text(""), bytes(4), data(b"")), "read", table),
            (message(88, long(6), text(table), text(""), long(0), bytes(4)), "read", table),
            (truncate(NAME, 1), "admin", NAME),
            (named(28, NAME), "admin", NAME),
            (named(30, NAME), "admin", NAME),
            (message(71, long(6), text(table), b"\0", text("")), "admin", table),
            (message(58, long(6), text(NAME), text(NAME + "#transient." + "0" * 32), text("")), "write", NAME),
        ]
        self.peer.ask(create(NAME) + message(70, long(5), text(table), text("")))
        self.peer.ask(setup(NAME) + append(1, event(b"x")))
        for request, right, topic in requests:
            kind = HEADER.unpack_from(request)[0]
            before = self.rig.store.commits
            self.rig.core.access.replace([NOBODY], 0.0)
            self.assertEqual(self.peer.ask(request)[:4], (60).to_bytes(4), kind)
            self.assertEqual(self.rig.store.commits, before, kind)
            self.rig.core.access.replace([rule(right, topics=(topic,))], 0.0)
            self.assertNotIn(self.peer.ask(request)[:4], (b"", (60).to_bytes(4)), kind)
        asked = {HEADER.unpack_from(request)[0] for request, _, _ in requests}
        self.assertEqual(asked, {*REQUESTS, *TABLES} - {-127})
