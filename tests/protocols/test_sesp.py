"""SESP byte by byte: what is sent, and what is answered."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from twisted.internet.testing import EventLoggingObserver
from twisted.logger import globalLogPublisher

from tests.rigs.protocols.rig import Rig
from tests.rigs.protocols.sesp_case import LIMITS, SespCase

CONVERSATION = [
    # The table of the document.
    "→#foo",
    "+",
    "→#foo",
    "-AlreadyExists",
    "→@bar",
    "-NoSuchTopicExists",
    "→@foo",
    "+",
    "→<",
    "-None",
    "→>hello world",
    "+",
    "→<",
    "+hello world",
    "→<",
    "-None",
    "→$0",
    "+",
    "→<",
    "+hello world",
    "→$-1",
    "-ReadOffsetCanNotBeNegative",
    "→$1001",
    "+",
    "→<",
    "-None",
    "→!foo",
    "+",
    "→!foo",
    "-NoSuchTopicExists",
    "→<",
    "-NoSuchTopicExists",
    "→>x",
    "-NoSuchTopicExists",
]


class TableTests(SespCase):
    """What the document says."""

    def test_line_by_line(self) -> None:
        """Each command is answered as the table says."""
        self.talk(*CONVERSATION)

    def test_at_once(self) -> None:
        """The answers are the same to the same lines in one segment: each sees what those before it did."""
        self.at_once(*CONVERSATION)

    def test_telnet(self) -> None:
        """They are the same to telnet, and end with a newline alone."""
        self.at_once(*CONVERSATION, end=b"\r\n")

    def test_own_writes(self) -> None:
        """A new topic is made, selected, written and read in one segment."""
        self.assertEqual(self.peer.ask(b"#a\n@a\n>x\n<\n"), b"+\n+\n+\n+x\n")

    def test_pipelined(self) -> None:
        """Reads among writes see just the writes before them."""
        self.talk("→#a", "+", "→@a", "+")
        self.assertEqual(
            self.peer.ask(b"<\n>1\n<\n<\n>2\n>3\n<\n<\n<\n"), b"-None\n+\n+1\n-None\n+\n+\n+2\n+3\n-None\n"
        )

    def test_messages(self) -> None:
        """A message is what stands behind the action byte, whatever that is."""
        messages = ["", " ", ">", "<", "#a", "\t", "\\", "\\n", "grüße 🌍", "x" * 60_000, "\r", "a\rb", "\x00"]
        self.topic("a", *messages)
        self.talk("→@a", "+")
        self.assertEqual(self.peer.ask(b"<\n" * len(messages)), "".join(f"+{each}\n" for each in messages).encode())

    def test_many(self) -> None:
        """A hundred thousand messages in one run come back in one run, in order."""
        count = 100_000
        messages = [b"%d" % number for number in range(count)]
        self.talk("→#a", "+", "→@a", "+")
        self.assertEqual(self.peer.ask(b"".join(b">" + each + b"\n" for each in messages)), b"+\n" * count)
        self.peer.send(b"<\n" * (count + 1))
        self.assertEqual(self.peer.take(), b"".join(b"+" + each + b"\n" for each in messages) + b"-None\n")

    def test_runs(self) -> None:
        """A run of reads gives what the same reads one by one do, however messages lie in commits and files."""
        chance = random.Random(7)
        messages: list[bytes] = []
        self.talk("→#a", "+", "→@a", "+")
        while len(messages) < 600:
            some = [
                b"%d " % chance.randrange(10**9) + b"x" * chance.choice((0, 10, 1000, 40_000))
                for _ in range(chance.randint(1, 40))
            ]
            self.peer.ask(b"".join(b">" + each + b"\n" for each in some))
            messages += some
        lines = [b"+" + each + b"\n" for each in messages] + [b"-None\n"]
        for line in lines:
            self.assertEqual(self.peer.ask(b"<\n"), line)
        for begin in (0, 1, 17, 300, 599, 600):
            for count in (1, 2, 50, 601 - begin):
                expected = b"".join(lines[begin : begin + count])
                expected += b"-None\n" * (count - len(lines[begin : begin + count]))
                self.assertEqual(self.peer.ask(b"$%d\n" % begin + b"<\n" * count), b"+\n" + expected)

    def test_two_readers(self) -> None:
        """Each connection has an offset of its own, and sees the other's messages once they are on disk."""
        self.topic("a", "1")
        other = self.rig.connect()
        self.talk("→@a", "+", "→<", "+1", "→>2", "+")
        self.talk("→@a", "+", "→<", "+1", "→<", "+2", "→<", "-None", peer=other)
        self.talk("→<", "+2")


class SelectTests(SespCase):
    """``@`` is once for a connection."""

    def test_nothing_selected(self) -> None:
        """What needs a topic is refused without one; the rest is not."""
        self.talk("→>x", "-NoTopicSelected", "→<", "-NoTopicSelected", "→%1", "-NoTopicSelected")
        self.assertEqual(self.peer.ask(b">x\n>y\n<\n<\n<\n"), b"-NoTopicSelected\n" * 5)
        self.talk("→$5", "+", "→#a", "+", "→?", '+["a"]', "→=a", "+", "→!a", "+")

    def test_second(self) -> None:
        """A second one is refused, of the same topic or of another, and the first one stays."""
        self.topic("a", "of a")
        self.topic("b", "of b")
        refused = "-TopicAlreadySelected"
        self.talk("→@a", "+", "→@a", refused, "→@b", refused, "→@none", refused, "→<", "+of a")

    def test_failed(self) -> None:
        """One that failed does not count."""
        self.topic("a", "1")
        for line in ("@none", "@", "@\x00", "@" + "x" * 256):
            self.assertTrue(self.peer.ask(line.encode() + b"\n").startswith(b"-"))
        self.talk("→<", "-NoTopicSelected", "→@a", "+", "→<", "+1")

    def test_offset_before(self) -> None:
        """An offset that was set before counts."""
        self.topic("a", "0", "1", "2")
        self.talk("→$2", "+", "→@a", "+", "→<", "+2")

    def test_deleted(self) -> None:
        """Who has selected a topic that somebody deletes is told so, at every command that needs it."""
        self.topic("a", "1")
        self.talk("→@a", "+")
        self.talk("→!a", "+", peer=self.rig.connect())
        gone = "-NoSuchTopicExists"
        self.talk("→<", gone, "→>x", gone, "→%0", gone, "→$0", "+", "→<", gone, "→@a", "-TopicAlreadySelected")
        self.assertEqual(self.peer.ask(b"<\n<\n>x\n>y\n"), b"-NoSuchTopicExists\n" * 4)

    def test_recreated(self) -> None:
        """One that is created under the same name is another: they stay apart for good."""
        self.topic("a", "old")
        self.talk("→@a", "+")
        other = self.rig.connect()
        self.talk("→!a", "+", "→#a", "+", "→@a", "+", "→<", "-None", "→>new", "+", "→<", "+new", peer=other)
        self.talk("→<", "-NoSuchTopicExists", "→>x", "-NoSuchTopicExists")
        self.talk("→<", "-None", peer=other)

    def test_deleted_and_recreated_at_once(self) -> None:
        """The same in one segment on one connection: it holds on to what it selected."""
        sent = b"#a\n@a\n>old\n!a\n#a\n>x\n<\n"
        self.assertEqual(self.peer.ask(sent), b"+\n+\n+\n+\n+\n-NoSuchTopicExists\n-NoSuchTopicExists\n")


class OffsetTests(SespCase):
    """Offsets count messages, from 0."""

    def test_default(self) -> None:
        """A session begins at 0, each message read advances by one, ``-None`` by nothing."""
        self.topic("a", "0", "1")
        self.talk("→@a", "+", "→<", "+0", "→<", "+1", "→<", "-None", "→<", "-None")
        self.talk("→@a", "+", "→>2", "+", peer=self.rig.connect())
        self.talk("→<", "+2", "→<", "-None")

    def test_anywhere(self) -> None:
        """Every offset can be set, in any order, also past the end."""
        count = 20
        self.topic("a", *map(str, range(count)))
        self.talk("→@a", "+")
        for offset in [*range(count), *reversed(range(count)), 0, count - 1]:
            self.talk(f"→${offset}", "+", "→<", f"+{offset}")
        for offset in (count, count + 1, 1 << 40, (1 << 63) - 1):
            self.talk(f"→${offset}", "+", "→<", "-None", "→<", "-None")

    def test_past_the_end(self) -> None:
        """An offset past the end waits there until the messages have come."""
        self.topic("a", "0")
        self.talk("→@a", "+", "→$2", "+", "→>1", "+", "→<", "-None", "→>2", "+", "→<", "+2")

    def test_refused(self) -> None:
        """What is no offset leaves the one there is."""
        self.topic("a", "0", "1", "2")
        self.talk("→@a", "+", "→$1", "+")
        negative, invalid = "-ReadOffsetCanNotBeNegative", "-InvalidData"
        self.talk("→$-1", negative, "→$-99999999999999999999999", negative, f"→$-{1 << 63}", negative)
        self.talk("→$", invalid, "→$x", invalid, "→$ 1", invalid, "→$+1", invalid, f"→${1 << 63}", invalid)
        self.talk("→<", "+1", "→$-0", "+", "→<", "+0", "→$002", "+", "→<", "+2")

    def test_truncated(self) -> None:
        """Below the first retained message there is nothing to read, and the offset stays where it is."""
        self.topic("a", *map(str, range(10)))
        self.talk("→@a", "+", "→%4", "+", "→<", "-OffsetTruncated", "→<", "-OffsetTruncated")
        self.assertEqual(self.peer.ask(b"<\n<\n<\n"), b"-OffsetTruncated\n" * 3)
        self.talk("→$3", "+", "→<", "-OffsetTruncated", "→$4", "+", "→<", "+4", "→<", "+5")


class ErrorTests(SespCase):
    """After an error the connection goes on; after ``TooLong`` it closes."""

    def test_invalid_command(self) -> None:
        """A line that begins with no action byte, an empty one too."""
        self.talk("→hello", "-InvalidCommand", "→", "-InvalidCommand", "→ #a", "-InvalidCommand", "→#a", "+")
        self.assertEqual(self.peer.ask(b"\xff\n\x00\n\n\n"), b"-InvalidCommand\n" * 4)

    def test_invalid_data(self) -> None:
        """Bad UTF-8, a number that is none, an empty or forbidden name, something where nothing belongs."""
        names = [
            b"",
            b"\xff",
            b"a\xc3",
            b"x" * 256,
            b"a\x00",
            b"\x1b[2J",
            b"a\x7f",
            b"\xc2\x85",
            b"\t",
            b"faststream/x",
        ]
        for action in b"#!@=?":
            for name in names:
                if action != ord("?") or name:
                    self.assertEqual(self.peer.ask(bytes([action]) + name + b"\n"), b"-InvalidData\n", name)
        for line in (b"<x", b"&x", b"$", b"%", b"%x", b">\xff"):
            self.assertEqual(self.peer.ask(line + b"\n"), b"-InvalidData\n", line)
        self.talk("→?", "+[]")

    def test_names(self) -> None:
        """All other names are a topic's: up to 255 bytes of text."""
        names = [
            "a",
            " ",
            "a b",
            "#",
            "?",
            "x" * 255,
            "ü" * 127,
            "grüße/🌍",
            "..",
            "/etc/passwd",
            '"quoted"',
            "faststream/7",
        ]
        for name in names:
            self.talk(f"→#{name}", "+", f"→#{name}", "-AlreadyExists")
        self.assertEqual(self.told("?"), names)
        for name in names:
            peer = self.rig.connect()
            self.talk(f"→@{name}", "+", f"→>{name}", "+", "→<", f"+{name}", f"→!{name}", "+", peer=peer)
        self.talk("→?", "+[]")

    def test_bad_message(self) -> None:
        """A message that is no UTF-8 is refused alone, and is nowhere in the topic."""
        self.talk("→#a", "+", "→@a", "+")
        self.assertEqual(self.peer.ask(b">1\n>\xff\n>2\n"), b"+\n-InvalidData\n+\n")
        self.assertEqual(self.peer.ask(b"<\n<\n<\n"), b"+1\n+2\n-None\n")

    def test_too_long(self) -> None:
        """It is answered behind all that was asked before, and then the connection closes."""
        limit = LIMITS.line_bytes_max
        longest = b">" + b"x" * (limit - 1) + b"\n"
        self.assertEqual(self.peer.ask(b"#a\n@a\n" + longest), b"+\n" * 3)
        self.assertEqual(self.peer.ask(b"<\n>y\n<\n>" + b"x" * limit + b"\n<\n"), b"+%b+\n+y\n-TooLong\n" % longest[1:])
        self.assertTrue(self.peer.closed)
        self.assertFalse(self.peer.aborted)

    def test_message_too_long(self) -> None:
        """The limit of messages counts for lines too; a name is never too long for it."""
        self.rig.core.limits = replace(LIMITS, message_bytes_max=300)
        peer = self.rig.connect()
        name = b"n" * 255
        self.assertEqual(peer.ask(b"#%b\n@%b\n>%b\n" % (name, name, b"x" * 300)), b"+\n" * 3)
        self.assertEqual(peer.ask(b">" + b"x" * 301 + b"\n"), b"-TooLong\n")
        self.assertTrue(peer.closed)

    def test_too_long_and_more(self) -> None:
        """Also where the rest of the line comes while what was asked before is still on its way to the disk."""
        self.rig.held = True
        self.peer.send(b"#a\n@a\n>1\n<\n>" + b"x" * (LIMITS.line_bytes_max + 2))
        for _ in range(5):
            self.peer.send(b"x" * 10_000)
        self.peer.send(b"\n<\n")
        self.assertEqual(self.peer.take(), b"")
        self.rig.release()
        self.assertEqual(self.peer.take(), b"+\n+\n+\n+1\n-TooLong\n")
        self.assertTrue(self.peer.closed)

    def test_sealed(self) -> None:
        """A sealed topic is read, and not written."""
        self.topic("a", "1")
        self.talk("→@a", "+", "→=a", "+", "→>2", "-TopicSealed", "→<", "+1", "→<", "-None", "→=a", "+")
        self.assertEqual(self.peer.ask(b">x\n>y\n=a\n>z\n"), b"-TopicSealed\n-TopicSealed\n+\n-TopicSealed\n")
        self.talk("→=none", "-NoSuchTopicExists", "→!a", "+")

    def test_read_only(self) -> None:
        """While the disk is full writes are refused, reads go on, and with room everything goes on."""
        self.topic("a", "1")
        self.talk("→@a", "+")
        self.rig.disk.full = True
        self.talk("→>2", "-ReadOnly", "→>3", "-ReadOnly", "→#b", "-ReadOnly", "→=a", "-ReadOnly", "→<", "+1")
        self.assertTrue(self.told("&")["store"]["read_only"])
        self.rig.disk.full = False
        self.rig.advance(5)
        self.talk("→>4", "+", "→<", "+4", "→<", "-None", "→#b", "+")
        self.assertFalse(self.told("&")["store"]["read_only"])

    def test_read_only_in_flight(self) -> None:
        """What is pending when the disk is found full is refused, each line of it, and leaves nothing behind."""
        self.topic("a", "1")
        self.rig.held = True
        self.peer.send(b"@a\n>2\n>3\n")
        self.peer.send(b">4\n#b\n<\n<\n")
        self.rig.disk.full = True
        self.rig.release()
        self.assertEqual(self.peer.take(), b"+\n" + b"-ReadOnly\n" * 4 + b"+1\n-None\n")
        self.rig.disk.full = False
        self.rig.advance(5)
        self.talk("→>5", "+", "→<", "+5", "→?", '+["a"]')

    def test_io_error(self) -> None:
        """A message that the disk gives back damaged is not told, and is in the log; the others are read."""
        observer: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        self.talk("→#a", "+", "→@a", "+", "→>good", "+", "→>broken", "+", "→>fine", "+")
        (journal,) = Path(self.rig.directory, "journal").glob("*.journal")
        data = journal.read_bytes()
        with journal.open("r+b") as file:
            file.seek(data.index(b"broken"))
            file.write(b"B")
        self.talk("→<", "+good", "→<", "-IOError", "→<", "-IOError", "→$2", "+", "→<", "+fine")
        self.assertIn("a message of {topic} can't be read: {error}", [each.get("log_format") for each in observer])
        # A run of reads is the same as one after the other.
        self.assertEqual(self.peer.ask(b"$0\n<\n<\n"), b"+\n+good\n-IOError\n")


class DurableTests(SespCase):
    """A positive reply is sent after the sync that covers it."""

    def test_not_before_the_commit(self) -> None:
        """Each kind of change is answered when its commit is done and not before."""
        self.topic("a", *map(str, range(5)))
        self.talk("→@a", "+")
        for line in (b">x\n", b">x\n>y\n", b"#b\n", b"%1\n", b"=b\n", b"!b\n", b"=a\n"):
            self.rig.held = True
            self.assertEqual(self.peer.ask(line), b"", line)
            self.assertEqual(self.peer.take(), b"")
            self.rig.release()
            self.assertEqual(self.peer.take(), b"+\n" * line.count(b"\n"), line)

    def test_errors_wait_too(self) -> None:
        """Where the reason of an error is not on disk itself yet, the error waits for it."""
        self.rig.held = True
        other = self.rig.connect()
        self.assertEqual(self.peer.ask(b"#a\n#a\n"), b"")
        self.assertEqual(other.ask(b"#a\n"), b"")
        self.rig.release()
        self.assertEqual(self.peer.take(), b"+\n-AlreadyExists\n")
        self.assertEqual(other.take(), b"-AlreadyExists\n")

    def test_in_order(self) -> None:
        """Nothing overtakes: what needs no disk waits behind what does."""
        self.topic("a")
        self.talk("→@a", "+")
        self.rig.held = True
        self.assertEqual(self.peer.ask(b">1\n$0\n$-1\nnonsense\n>2\n<\n&\n"), b"")
        self.rig.release()
        replies = self.peer.take().split(b"\n")
        self.assertEqual(
            replies[:6], [b"+", b"+", b"-ReadOffsetCanNotBeNegative", b"-InvalidCommand", b"+", b"+1"], replies
        )

    def test_unseen_before_the_commit(self) -> None:
        """Nobody is shown what is not on disk yet: no message, no topic."""
        self.topic("a")
        other = self.rig.connect()
        self.talk("→@a", "+", peer=other)
        self.rig.held = True
        self.peer.send(b"#b\n@a\n>x\n")
        self.talk("→<", "-None", "→?", '+["a"]', "→!b", "-NoSuchTopicExists", peer=other)
        self.rig.release()
        self.talk("→<", "+x", "→?", '+["a", "b"]', peer=other)

    def test_reopened(self) -> None:
        """What was acknowledged is there after a restart, and means the same."""
        self.topic("a", "0", "1", "2", "3")
        self.topic("gone", "x")
        self.talk("→@a", "+", "→%2", "+", "→=a", "+", "→!gone", "+")
        before = self.told("?a")
        self.rig.close()
        self.rig = Rig(self.rig.directory, limits=LIMITS)
        self.addCleanup(self.rig.close)
        self.peer = self.rig.connect()
        self.assertEqual(self.told("?a"), before)
        self.talk("→?", '+["a"]', "→@a", "+", "→<", "-OffsetTruncated", "→$2", "+", "→<", "+2", "→>x", "-TopicSealed")


class EscapeTests(SespCase):
    def test_escaped(self) -> None:
        """A message of another protocol that a line can't hold is escaped behind a star; its neighbours are not."""
        self.topic("a")
        self.rig.publish("a", b"plain \\", b"two\nlines", b"\xff\x00\\", b"\r", b"tab\tand\r\nend\x1b", b"end")
        self.talk("→@a", "+")
        lines = [b"+plain \\", b"*two\\nlines", b"*\\xff\\x00\\\\", b"+\r", b"*tab\\x09and\\r\\nend\\x1b", b"+end"]
        for line in lines:
            self.assertEqual(self.peer.ask(b"<\n"), line + b"\n")
        self.assertEqual(self.peer.ask(b"$0\n" + b"<\n" * 6), b"+\n" + b"\n".join(lines) + b"\n")
