"""The codec of SESP: the same commands wherever TCP cuts them, and no input that it can't stand."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.wire import WireError, sesp
from streamd.wire.sesp import (
    OFFSET_END,
    AskSequence,
    Command,
    Create,
    Delete,
    Describe,
    List,
    Publish,
    PublishLater,
    PublishOnce,
    Read,
    Refused,
    Seal,
    Seek,
    Select,
    SespCodec,
    Status,
    Truncate,
    error_line,
    message_lines,
)
from tests.rigs.wire.sesp import CONVERSATION, singles, unescaped

LIMIT = 1 << 20

COMMANDS = [command for _, command in CONVERSATION]


def decode(*pieces: bytes, limit: int = LIMIT) -> tuple[list[Command], bool, int]:
    """The commands of what arrived in these pieces; whether a line was too long; what is left of a last line."""
    codec = SespCodec(limit)
    found: list[Command] = []
    for piece in pieces:
        if codec.error is None:
            found += codec.receive(piece)
    return singles(found), codec.error is not None, codec.buffered


def one(line: bytes) -> Command:
    """The command in a line."""
    (command,) = SespCodec(LIMIT).receive(line + b"\n")
    return command


class CutTests(SynchronousTestCase):
    """Commands are the same wherever TCP cuts them."""

    def each_line_end(self) -> Iterable[bytes]:
        for end in (b"\n", b"\r\n"):
            yield b"".join(line + end for line, _ in CONVERSATION)

    def test_whole(self) -> None:
        """The whole conversation at once gives the commands in order."""
        for whole in self.each_line_end():
            self.assertEqual(decode(whole), (COMMANDS, False, 0))

    def test_cut_anywhere(self) -> None:
        """In two pieces, cut at every byte, it is the same conversation."""
        for whole in self.each_line_end():
            for cut in range(len(whole) + 1):
                self.assertEqual(decode(whole[:cut], whole[cut:]), (COMMANDS, False, 0), whole[:cut])

    def test_byte_by_byte(self) -> None:
        """So it is one byte at a time, and after each byte there are as many commands as lines have ended."""
        for whole in self.each_line_end():
            codec = SespCodec(LIMIT)
            found: list[Command] = []
            for at, byte in enumerate(whole, 1):
                found += codec.receive(bytes([byte]))
                self.assertEqual(found, COMMANDS[: whole[:at].count(b"\n")])
                self.assertEqual(codec.buffered, at - whole.rfind(b"\n", 0, at) - 1)
            self.assertEqual(found, COMMANDS)

    def test_trailing(self) -> None:
        """What follows the last line end waits, and takes part in nothing before."""
        for whole in self.each_line_end():
            for rest in (b">", b"<", b"\r", b">unfinished \xff", b"#topi"):
                for cut in range(len(whole) + 1):
                    self.assertEqual(decode(whole[:cut], whole[cut:] + rest), (COMMANDS, False, len(rest)))

    def test_looked_at_later(self) -> None:
        """Commands are the same whenever they are looked at, also when more has come in before that."""
        for whole in self.each_line_end():
            for size in (1, 2, 3, 7, 50):
                codec = SespCodec(LIMIT)
                received = [codec.receive(whole[at : at + size]) for at in range(0, len(whole), size)]
                self.assertEqual(singles(command for commands in received for command in commands), COMMANDS)

    def test_every_line_alone(self) -> None:
        """A line means the same whatever stands before and behind it."""
        for line, command in CONVERSATION:
            self.assertEqual(singles([one(line)]), [command])
            for before, first in CONVERSATION:
                self.assertEqual(decode(before + b"\n" + line + b"\n"), ([first, command], False, 0))

    @given(
        st.lists(st.sampled_from([line for line, _ in CONVERSATION]) | st.binary(max_size=8), max_size=30),
        st.lists(st.integers(0, 300), max_size=8),
        st.sampled_from([b"\n", b"\r\n"]),
    )
    def test_any_split(self, lines: list[bytes], cuts: list[int], end: bytes) -> None:
        """Any lines in any pieces are what they are in one piece, also those that are over the limit."""
        whole = b"".join(line + end for line in lines)
        at = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
        pieces = [whole[begin:stop] for begin, stop in pairwise(at)]
        for limit in (LIMIT, 12):
            self.assertEqual(decode(*pieces, limit=limit), decode(whole, limit=limit))

    @given(st.lists(st.binary(max_size=64), max_size=10))
    @example([b"\n", b"\r\n", b"\n\n"])
    @example([b">\xed\xa0\x80\n"])
    @settings(max_examples=300)
    def test_anything(self, pieces: list[bytes]) -> None:
        """No bytes make it raise; it answers each line, or says that one is too long."""
        commands, too_long, left = decode(*pieces, limit=40)
        whole = b"".join(pieces)
        if too_long:
            self.assertTrue(any(len(line) > 40 for line in whole.split(b"\n")))
        else:
            self.assertEqual(len(commands), whole.count(b"\n"))
            self.assertEqual(left, len(whole) - whole.rfind(b"\n") - 1)


class RunTests(SynchronousTestCase):
    """A run of like commands in one read is one command."""

    def receive(self, data: bytes) -> list[Command]:
        return list(SespCodec(LIMIT).receive(data))

    def test_publish(self) -> None:
        """A run of publishes is one batch, alone and among others."""
        records = [b"", b"x", b">", b">>", b"<", "ü".encode(), b"\r", b" "]
        for count in range(1, len(records) + 1):
            run = b"".join(b">" + record + b"\n" for record in records[:count])
            batch = Publish(Batch.of(records[:count]))
            self.assertEqual(self.receive(run), [batch])
            self.assertEqual(batch.count, count)
            self.assertEqual(self.receive(b"&\n" + run), [Status(), batch])
            self.assertEqual(self.receive(run + b"&\n"), [batch, Status()])
            self.assertEqual(self.receive(run + b"<\n" + run), [batch, Read(1), batch])

    def test_read(self) -> None:
        """A run of reads is one, alone and among others."""
        for count in range(1, 9):
            run = b"<\n" * count
            self.assertEqual(self.receive(run), [Read(count)])
            self.assertEqual(self.receive(b"&\n" + run + b"&\n"), [Status(), Read(count), Status()])
            self.assertEqual(self.receive(run + b"<x\n" + run), [Read(count), Refused("InvalidData"), Read(count)])

    def test_only_its_own(self) -> None:
        """A message that is no UTF-8 is refused, and none of its neighbours is."""
        broken = [b"\xff", b"\xc3", b"\x80", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"a\xf0\x9f\x8c"]
        for bad in broken:
            for before in ([], [b"a"], [b"a", b"\xc3\xbc"]):
                for behind in ([], [b"z"], [b"\xc2\xbf", b"z"]):
                    lines = [*before, bad, *behind]
                    expected: list[Command] = [Publish(Batch.of([each])) for each in before]
                    expected.append(Refused("InvalidData"))
                    expected += [Publish(Batch.of([each])) for each in behind]
                    whole = b"".join(b">" + line + b"\n" for line in lines)
                    self.assertEqual(singles(self.receive(whole)), expected)
                    # Also where the batch is not at the beginning of what came in.
                    self.assertEqual(singles(self.receive(b"&\n" + whole)), [Status(), *expected])

    def test_half_a_character(self) -> None:
        """Two messages that would be text end to end are still two that are not."""
        self.assertEqual(self.receive(b">\xc3\n>\xbc\n"), [Refused("InvalidData")] * 2)

    def test_size(self) -> None:
        """What a command keeps in memory is told at least as large as its messages."""
        (publish,) = self.receive(b">" + b"x" * 1000 + b"\n>\n")
        self.assertGreaterEqual(publish.size, 1000)

    def test_reads(self) -> None:
        """What looks at the store waits for this connection's own writes; writes and what is refused do not."""
        waits = {Read, Delete, Select, Seal, Describe, List, Status, Truncate}
        for command in COMMANDS:
            self.assertEqual(command.reads, type(command) in waits, command)

    def test_equal_and_shown(self) -> None:
        """Commands with the same fields are equal, and show them."""
        self.assertEqual(repr(one(b"$5")), "Seek(offset=5, count=1)")
        self.assertNotEqual(one(b"$5"), one(b"%5"))
        self.assertNotEqual(one(b"$5"), one(b"$6"))


class TelnetTests(SynchronousTestCase):
    """The first line tells whether a connection is telnet."""

    def test_telnet(self) -> None:
        """There one carriage return before each newline is dropped, and a line without one is a line too."""
        found, _, _ = decode(b"#a\r\n>b\r\n>c\n>d\r\r\n>\r\n>e\rf\r\n<\r\n")
        records = [b"b", b"c", b"d\r", b"", b"e\rf"]
        self.assertEqual(found, [Create("a"), *(Publish(Batch.of([each])) for each in records), Read(1)])

    def test_not_telnet(self) -> None:
        """On other connections it is data in every line, also where a name or a number is wanted."""
        found, _, _ = decode(b"&\n>b\r\n<\r\n$1\r\n#a\r\n\r\n")
        refused = Refused("InvalidData")
        expected = [Status(), Publish(Batch.of([b"b\r"])), refused, refused, Create("a\r"), Refused("InvalidCommand")]
        self.assertEqual(found, expected)

    def test_first_line_decides(self) -> None:
        """Even where it is empty or no command, and in whatever pieces it comes."""
        for first in (b"", b"x", b">", b"<", b">\xff"):
            for telnet in (True, False):
                whole = first + (b"\r\n" if telnet else b"\n") + b">y\r\n"
                for cut in range(len(whole)):
                    found, _, _ = decode(whole[:cut], whole[cut:])
                    self.assertEqual(found[-1], Publish(Batch.of([b"y" if telnet else b"y\r"])))


class NumberTests(SynchronousTestCase):
    def test_offsets(self) -> None:
        """ASCII digits with an optional minus are an offset, below 2^63."""
        cases = {
            b"0": 0,
            b"1001": 1001,
            b"-5": -5,
            b"-0": 0,
            b"-00": 0,
            b"007": 7,
            b"-007": -7,
            b"0" * 1000: 0,
            b"0" * 1000 + b"9": 9,
            b"%d" % (OFFSET_END - 1): OFFSET_END - 1,
            b"000%d" % (OFFSET_END - 1): OFFSET_END - 1,
            b"-%d" % OFFSET_END: -OFFSET_END,
        }
        for digits, offset in cases.items():
            self.assertEqual(one(b"$" + digits), Seek(offset))
            self.assertEqual(one(b"%" + digits), Truncate(offset))

    def test_no_offsets(self) -> None:
        """Everything else is none."""
        cases = [b"", b"-", b"+1", b" 1", b"1 ", b"1_0", b"--1", b"1-", b"0x1", b"1e3", b"1.0", b"x", b"\xff", b"1\x00"]
        cases += ["\u0661".encode(), "²".encode(), b"%d" % OFFSET_END, b"%d" % (OFFSET_END * 10), b"9" * 30]
        for digits in cases:
            for action in (b"$", b"%"):
                self.assertEqual(one(action + digits), Refused("InvalidData"), digits)

    def test_long_numbers(self) -> None:
        """A number as long as a line may be takes no longer to refuse than to receive."""
        million = 1_000_000
        nines, zeros = b"9" * million, b"0" * million
        cases: dict[bytes, Command] = {
            nines: Refused("InvalidData"),
            zeros: Seek(0),
            zeros + b"1" * 19: Seek(int("1" * 19)),
            zeros + b"1" * 25: Refused("InvalidData"),
            zeros + b"x": Refused("InvalidData"),
            b"-" * million: Refused("InvalidData"),
        }
        for digits, expected in cases.items():
            begin = time.process_time()
            self.assertEqual(one(b"$" + digits), expected)
            self.assertLess(time.process_time() - begin, 0.1)
        command = one(b"$-" + nines)
        assert isinstance(command, Seek)
        self.assertLess(command.offset, 0)


class NameTests(SynchronousTestCase):
    def test_named(self) -> None:
        """Each of these takes any text for a name. Which names there are is for the store to say."""
        kinds = {b"#": Create, b"!": Delete, b"@": Select, b"=": Seal, b"?": Describe}
        for action, kind in kinds.items():
            for name in ("a", " ", "#", "a b", "ü/🌍", "x" * 300, "\t"):
                self.assertEqual(one(action + name.encode()), kind(name))
            self.assertEqual(one(action + b"\xff"), Refused("InvalidData"))
            if action != b"?":
                self.assertEqual(one(action), kind(""))

    def test_actions(self) -> None:
        """Each byte that is no action is refused, alone and with something behind it."""
        known = b"#!@$<>?=%&^~"
        for byte in range(256):
            if byte != ord("\n") and byte not in known:
                for rest in (b"", b"x", b"\xff"):
                    self.assertEqual(one(bytes([byte]) + rest), Refused("InvalidCommand"), byte)

    def test_once_and_later(self) -> None:
        """A writer, a number and a message, or the writer alone; a time and a message. Else it is no such command."""
        self.assertEqual(one(b"^me 7 a b"), PublishOnce("me", 7, Batch.of([b"a b"])))
        self.assertEqual(one(b"^me 0 "), PublishOnce("me", 0, Batch.of([b""])))
        self.assertEqual(one(b"^me"), AskSequence("me"))
        self.assertEqual(one(b"~12 x"), PublishLater(12, Batch.of([b"x"]), is_relative=False))
        self.assertEqual(one(b"~+12 x"), PublishLater(12, Batch.of([b"x"]), is_relative=True))
        for wrong in (b"^", b"^ 1 x", b"^me x y", b"^me 1", b"^me -1 x", b"^" + b"x" * 65, b"^me 1 \xff", b"~", b"~1",
                      b"~x y", b"~-1 x", b"~" + b"9" * 16 + b" x", b"~1 \xff"):  # fmt: skip
            self.assertEqual(one(wrong), Refused("InvalidData"), wrong)

    def test_nothing_behind(self) -> None:
        """Where nothing may follow, something is refused."""
        for line in (b"<x", b"< ", b"<<", b"&x", b"& "):
            self.assertEqual(one(line), Refused("InvalidData"))


class TooLongTests(SynchronousTestCase):
    """A line has up to so many bytes, its end not counted."""

    limit = 64

    def line(self, size: int) -> bytes:
        return b">" + b"x" * (size - 1)

    def test_at_the_limit(self) -> None:
        """One that is exactly as long as allowed is taken, one more is not, whatever the line end, cut anywhere."""
        for end, before in ((b"\n", b"&\n"), (b"\r\n", b"&\r\n")):
            for size in (self.limit - 1, self.limit, self.limit + 1, self.limit + 2, 3 * self.limit):
                whole = before + self.line(size) + end
                good = [Status(), Publish(Batch.of([b"x" * (size - 1)]))] if size <= self.limit else [Status()]
                for cut in range(len(whole) + 1):
                    found, too_long, _ = decode(whole[:cut], whole[cut:], limit=self.limit)
                    self.assertEqual((found, too_long), (good, size > self.limit), (size, cut))

    def test_carriage_return(self) -> None:
        """Where it is data it counts, where it belongs to the line end it does not."""
        line = self.line(self.limit) + b"\r\n"
        self.assertEqual(decode(b"&\n", line, limit=self.limit)[1], True)
        self.assertEqual(decode(b"&\r\n", line, limit=self.limit)[1], False)
        self.assertEqual(decode(line, limit=self.limit)[1], False)

    def test_in_the_middle(self) -> None:
        """Of lines around it, those before are commands and those behind are nothing, for every length of each."""
        for before in range(1, self.limit + 1, 7):
            for count in (0, 1, 2, 5):
                good = (self.line(before) + b"\n") * count
                for behind in (b"", b"<\n", b">unfinished"):
                    whole = good + self.line(self.limit + 1) + b"\n" + behind
                    for pieces in ((whole,), (good, whole[len(good) :])):
                        found, too_long, left = decode(*pieces, limit=self.limit)
                        self.assertEqual((len(found), too_long, left), (count, True, 0))

    def test_never_ended(self) -> None:
        """It is found out before its end comes, with at most one byte more than a line may have in memory."""
        codec = SespCodec(self.limit)
        for _ in range(self.limit + 1):
            self.assertEqual(list(codec.receive(b"x")), [])
            self.assertIsNone(codec.error)
        self.assertEqual(codec.buffered, self.limit + 1)
        self.assertEqual(list(codec.receive(b"x")), [])
        self.assertIsInstance(codec.error, WireError)
        self.assertEqual(codec.buffered, 0)

    def test_nothing_after(self) -> None:
        """Nothing more is parsed after it: who still asks is told the error."""
        codec = SespCodec(self.limit)
        codec.receive(self.line(self.limit + 2))
        self.assertRaises(WireError, codec.receive, b"<\n")

    def test_linear(self) -> None:
        """A line in pieces of one byte takes a time in proportion to its length: ten times as long, not a hundred."""

        def seconds(size: int) -> float:
            best = float("inf")
            for _ in range(3):
                codec = SespCodec(LIMIT)
                begin = time.process_time()
                for _ in range(size):
                    codec.receive(b"x")
                (found,) = codec.receive(b"\n")
                best = min(best, time.process_time() - begin)
                self.assertEqual(found, Refused("InvalidCommand"))
            return best

        self.assertLess(seconds(300_000), 40 * seconds(30_000))

    def test_many_lines_linear(self) -> None:
        """So do many short lines in one read that is far over the limit of a line."""
        begin = time.process_time()
        found, too_long, _ = decode(b">x\n" * 300_000, limit=self.limit)
        self.assertEqual((len(found), too_long), (300_000, False))
        self.assertLess(time.process_time() - begin, 10)


class ReplyTests(SynchronousTestCase):
    def test_plain(self) -> None:
        """A message that is text on one line is read back as it is, whatever else is in it."""
        texts = ["", "hello", "\\", "\\n", "*", "+", "\r", "a\rb", "\x00\x07\x1b\x7f", "\x85\u2028", "grüße 🌍"]
        records = [text.encode() for text in texts]
        for record in records:
            self.assertEqual(message_lines([record]), b"+" + record + b"\n")
        self.assertEqual(message_lines(records), b"".join(b"+%b\n" % record for record in records))

    def test_each_byte(self) -> None:
        """In a message with a newline, each byte value has its one escape, or none."""
        named = {ord("\\"): b"\\\\", ord("\n"): b"\\n", ord("\r"): b"\\r"}
        for byte in range(256):
            data = bytes([byte])
            plain = 0x20 <= byte < 0x7F and byte not in named
            escaped = data if plain else named.get(byte, b"\\x%02x" % byte)
            self.assertEqual(message_lines([b"\n" + data + b"."]), b"*\\n" + escaped + b".\n")

    def test_text_in_escaped(self) -> None:
        """Characters beyond ASCII stay as they are there, but for control characters; bytes that are no text do not."""
        self.assertEqual(message_lines(["\ngrüße 🌍".encode()]), "*\\ngrüße 🌍\n".encode())
        self.assertEqual(message_lines(["\n\x80\x9f\xa0".encode()]), b"*\\n\\xc2\\x80\\xc2\\x9f\xc2\xa0\n")
        self.assertEqual(message_lines([b"\xc3\xbc\xff\xc3"]), b"*\xc3\xbc\\xff\\xc3\n")
        self.assertEqual(message_lines([b"\xed\xa0\x80"]), b"*\\xed\\xa0\\x80\n")
        self.assertEqual(message_lines([b"\xff\\x41"]), b"*\\xff\\\\x41\n")

    def test_only_such_a_one(self) -> None:
        """Its neighbours in the same reply are not escaped, wherever it stands."""
        for bad, escaped in ((b"a\nb", b"*a\\nb\n"), (b"\xff", b"*\\xff\n"), (b"\n", b"*\\n\n")):
            for at in range(4):
                records = [b"\\", b"", b"\xc3\xbc\r"]
                lines = [b"+\\\n", b"+\n", b"+\xc3\xbc\r\n"]
                records.insert(at, bad)
                lines.insert(at, escaped)
                self.assertEqual(message_lines(records), b"".join(lines))
        # These would be text, or one line, end to end.
        self.assertEqual(message_lines([b"\xc3", b"\xbc"]), b"*\\xc3\n*\\xbc\n")

    def test_buffers(self) -> None:
        """Records may be any kind of buffer."""
        for data, line in ((b"abc", b"+abc\n"), (b"a\nc", b"*a\\nc\n"), (b"\xff", b"*\\xff\n")):
            for record in (data, bytearray(data), memoryview(data)):
                self.assertEqual(message_lines([record, record]), line * 2)

    @given(st.lists(st.binary(max_size=30) | st.text(max_size=10).map(lambda text: text.encode(errors="ignore"))))
    @example([b"\n\\x0a"])
    def test_one_line_each(self, records: list[bytes]) -> None:
        """A reply is one line for each message, valid UTF-8, from which the message comes back byte by byte."""
        lines = b"".join(message_lines([record]) for record in records)
        self.assertEqual(lines.count(b"\n"), len(records))
        lines.decode()
        if records:
            self.assertEqual(message_lines(records), lines)
        for line, record in zip(lines.split(b"\n"), records, strict=False):
            told = unescaped(line[1:]) if line[:1] == b"*" else line[1:]
            self.assertEqual(told, record)
            special = b"\n" in record or record.decode(errors="replace").encode() != record
            self.assertEqual(line[:1], b"*" if special else b"+")

    def test_error_line(self) -> None:
        """An error is its name alone on the line."""
        self.assertEqual(error_line("None"), b"-None\n")
        self.assertEqual(sesp.OK, b"+\n")
