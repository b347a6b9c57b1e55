"""The client's half of SESP: what it sends is what the daemon reads, and the other way round."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.wire import WireError
from streamd.wire.client.sesp import (
    SespReplies,
    command_line,
    messages,
    publish_lines,
    refusals,
    unescaped,
)
from streamd.wire.sesp import (
    OK,
    Command,
    Create,
    Delete,
    Describe,
    List,
    Publish,
    Read,
    Seal,
    Seek,
    Select,
    SespCodec,
    Status,
    Truncate,
    error_line,
    message_lines,
)
from tests.rigs.wire.pieces import TEXT, cut, made, received

LIMIT = 1 << 16
CONTROL = "".join(map(chr, (*range(32), *range(127, 160))))
PRINTABLE = st.characters(codec="utf-8", exclude_characters=CONTROL)
NAMES = st.text(PRINTABLE, min_size=1, max_size=8)
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    NAMES.map(Create),
    NAMES.map(Delete),
    NAMES.map(Select),
    NAMES.map(Seal),
    NAMES.map(Describe),
    st.integers(-5, 2**63 - 1).map(Seek),
    st.integers(-5, 2**63 - 1).map(Truncate),
    st.integers(1, 5).map(Read),
    made(List),
    made(Status),
)


def make() -> SespReplies:
    return SespReplies(LIMIT)


class RequestTests(SynchronousTestCase):
    @given(COMMANDS)
    @settings(deadline=None, max_examples=200, derandomize=True)
    def test_identity(self, command: Command) -> None:
        """The daemon reads the command that was meant."""
        self.assertEqual(list(SespCodec(LIMIT).receive(command_line(command))), [command])

    @given(st.lists(st.text(TEXT, max_size=9), min_size=1))
    @settings(deadline=None, max_examples=200, derandomize=True)
    def test_publish(self, texts: list[str]) -> None:
        """Messages arrive as they are, in order, behind a first line that is not telnet's."""
        codec = SespCodec(LIMIT)
        sent = [text.encode() for text in texts]
        _, *commands = codec.receive(command_line(Select("topic")) + publish_lines(sent))
        found = [bytes(each) for one in commands if isinstance(one, Publish) for each in one.batch.records()]
        self.assertEqual(found, sent)

    def test_nothing(self) -> None:
        """No messages are no lines."""
        self.assertEqual(publish_lines([]), b"")

    def test_no_line(self) -> None:
        """What is no line, or would be two, is not sent."""
        for message in (b"two\nlines", b"\n", b"no text \xff"):
            self.assertRaises(ValueError, publish_lines, [b"good", message])
        for name in ("", "a\nb", "a\r", "\0", "\x85"):
            self.assertRaises(ValueError, command_line, Create(name))


class ReplyTests(SynchronousTestCase):
    @given(st.lists(st.binary(max_size=9) | st.just(b""), min_size=1, max_size=30), st.lists(st.integers(0, 200)))
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_messages(self, records: list[bytes], places: list[int]) -> None:
        """Records of any bytes, escaped or not, come out as they went in, wherever the replies are cut."""
        lines, error, buffered = received(make, cut(message_lines(records), places))
        self.assertEqual((messages(lines), error, buffered), ((records, []), None, 0))

    def test_mixed(self) -> None:
        """Messages and errors are told apart, whatever stands in the messages."""
        data = message_lines([b"-None", b"+", b"*\\n", b"a\nb"]) + error_line("None") * 2 + message_lines([b""])
        lines, _, _ = received(make, [data])
        self.assertEqual(messages(lines), ([b"-None", b"+", b"*\\n", b"a\nb", b""], ["None", "None"]))

    def test_refusals(self) -> None:
        """Of many replies to publishes those that refuse are found."""
        for data, names in (
            (OK * 1000, []),
            (OK + error_line("TopicSealed") + OK + error_line("ReadOnly"), ["TopicSealed", "ReadOnly"]),
        ):
            self.assertEqual(refusals(received(make, [data])[0]), names)

    def test_no_reply(self) -> None:
        """A line that is no reply, or escapes what nobody escapes, is the daemon's fault."""
        self.assertRaises(WireError, refusals, [b"+", b"hello"])
        self.assertRaises(WireError, messages, [b""])
        self.assertRaises(WireError, unescaped, b"\\q")

    @given(st.text("+*-\\xn0\n", max_size=100), st.lists(st.integers(0, 100), max_size=5))
    @settings(deadline=None, max_examples=200, derandomize=True)
    def test_anything(self, text: str, places: list[int]) -> None:
        """Whatever comes, lines are lines wherever they are cut, too long ones too."""
        data = text.encode()
        pieces = cut(data, places)
        for limit in (LIMIT, 3):
            make = partial(SespReplies, limit)
            self.assertEqual(received(make, pieces), received(make, [data]))

    def test_too_long(self) -> None:
        """A line that does not end is given up at the limit, and nothing is kept."""
        codec = make()
        self.assertEqual(codec.receive(b"+\n" + b"x" * LIMIT), [b"+"])
        self.assertIsNone(codec.error)
        codec.receive(b"x")
        self.assertIsInstance(codec.error, WireError)
        self.assertEqual(codec.buffered, 0)
        self.assertRaises(WireError, codec.receive, b"")
