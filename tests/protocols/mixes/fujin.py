"""Plain models of Fujin's streams: what each is to be told, and what becomes of topics and groups.

A writer's answers depend on nobody else, and neither do those of a reader that is alone in its group on a topic that
nobody writes to: these are known to the byte before anything is sent. Readers that share a group are driven by what
they get, and what they get together is compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from struct import pack
from typing import Any

from streamd.batch import Batch
from streamd.connections.core import Core
from streamd.protocols.fujin.factory import FujinFactory
from streamd.protocols.fujin.protocol import FujinProtocol
from streamd.protocols.fujin.settings import configure
from streamd.settings import Limits
from streamd.wire import fujin_replies as replies
from streamd.wire.client import fujin as client
from streamd.wire.fujin_replies import Code, Reply
from tests.protocols.laws.description import LIMITS
from tests.protocols.laws.fujin import answer, frames, told
from tests.rigs.protocols.fujin_case import FujinRig, StreamPeer
from tests.rigs.protocols.rig import Apart
from tests.rigs.store.simulated import SimulatedDisk

TRANSACTION_BYTES_MAX = 120
SEALED = "sealed"
NEVER = 1 << 60
"""The number of a message that nobody ever has."""


class _Stream(FujinProtocol):
    """A stream that reads little at a time, as all do when memory is short."""

    @property
    def reply_bytes_max(self) -> int:
        return 4096


class _Factory(FujinFactory):
    def build(self) -> FujinProtocol:
        return _Stream(self.core, self._settings, self._groups)


class MixRig(Apart, FujinRig):
    """A store in memory with streams to it; syncs, cold reads and memory are as bad as a test likes."""

    def __init__(self, readers: dict[str, Any], limits: Limits = LIMITS) -> None:
        self.simulated = SimulatedDisk()
        self._crowd = 0
        settings = configure({"readers": readers, "transaction_bytes_max": TRANSACTION_BYTES_MAX})

        def factory(core: Core) -> FujinFactory:
            return _Factory(core, settings)

        super().__init__("/mix", limits=limits, make_factory=factory, medium=self.simulated)

    def furnish(self, topic: str, records: Sequence[bytes]) -> None:
        """Put records into a topic, each in a commit of its own."""
        self.store.create(topic)
        self.run()
        for record in records:
            self.publish(topic, record)

    def stir(self, random: Random) -> None:
        """Let syncs, reads or memory be otherwise than before."""
        match random.randrange(6):
            case 0:
                self.held = not self.held
            case 1:
                self.simulated.is_cold = not self.simulated.is_cold
            case 2:
                self.cold_held = not self.cold_held
            case 3:
                self._fill(0 if self._crowd else self.limits.buffered_bytes_max + 1)
        self.run()

    def _fill(self, size: int) -> None:
        """Let others hold so much: a transaction goes to disk then, and answers are small."""
        self.load.change(size - self._crowd)
        self._crowd = size

    def settle(self) -> None:
        """Let everything happen."""
        self._fill(0)
        self.held = self.cold_held = False
        self.run()

    @property
    def hidden(self) -> list[str]:
        """Segments that nobody sees, of transactions that have not ended."""
        return [each.name for each in self.store.following(0, 1000)[0] if each.hidden and not each.published]

    def stored(self, topic: str) -> list[bytes]:
        """All records of a topic."""
        segment = self.store.find_claimed(topic)
        records: list[bytes] = []
        while segment is not None and len(records) < segment.number:
            runs: list[Any] = []
            self.store.read(segment, len(records), bytes_max=1 << 20).addCallback(runs.extend)
            self.run()
            records += [bytes(record) for run in runs for record in run.batch.records()]
        return records


@dataclass
class Script:
    """What a stream sends, and what it is told: replies in their order, and messages in theirs."""

    name: str
    data: bytes = b""
    replies: list[bytes] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    code: int | None = None
    """What the stream is closed with; None where it stays open."""
    shut: bool = False
    """Whether it ends what it sends."""
    asked: list[str] = field(default_factory=list)
    meta_bytes: int = 0
    slow: bool = True
    """Whether it may be slow to take what it is told."""

    def add(self, name: str, data: bytes, *answers: bytes) -> None:
        self.asked.append(name)
        self.data += data
        self.replies += answers

    def explain(self, told: bytes, code: int, closed: bool) -> str:
        """What was asked and told, for a person."""
        return (
            f"  {self.name} asked {' '.join(self.asked)}\n"
            f"    told {frames(told, self.meta_bytes)}, closed {closed} with {code}\n"
            f"    expected {self.replies}, {self.messages}, code {self.code}, shut {self.shut}"
        )


class Writer:
    """A writer's stream, made up at random, with what it is answered and what it stores."""

    def __init__(self, random: Random, number: int, topics: Sequence[str]) -> None:
        self._random = random
        self._number = number
        self._topics = topics
        self._id = 0
        self._written = 0
        self._transaction: list[tuple[str, bytes]] | None = None
        self._bytes = 0
        self._failed = False
        self.units: list[list[tuple[str, bytes]]] = []
        """What is stored, in order: what stands together in one of these is seen together."""
        self.script = Script(f"writer {number}")

    def make(self, requests: int) -> Writer:
        """So many requests at most."""
        self.script.add("connect", client.connect_writer(self._number))
        for _ in range(requests):
            if self.script.code is None and not self.script.shut:
                self._ask()
        return self

    def _ask(self) -> None:
        self._id += 1
        draw = self._random.random()
        if draw < 0.62:
            # Runs of one topic become one request.
            topic = self._random.choice(self._topics)
            for _ in range(self._random.choice((1, 1, 2, 4))):
                self._write(topic)
        elif draw < 0.70:
            self._write(self._random.choice(("", "a\0", "x" * 256, SEALED)))
        elif draw < 0.97:
            self._turn()
        else:
            self._end()

    def _write(self, topic: str) -> None:
        self._id += 1
        self._written += 1
        record = b"%d:%d" % (self._number, self._written) + b"." * self._random.choice((0, 0, 5, 40))
        code, text = self._refusal(topic, record)
        self.script.add(
            f"write({topic[:9]!r})", client.write(self._id, topic, record), answer(Reply.WRITTEN, self._id, code, text)
        )
        if code:
            return
        if self._transaction is None:
            self.units.append([(topic, record)])
        else:
            self._transaction.append((topic, record))

    def _refusal(self, topic: str, record: bytes) -> tuple[int, str]:
        for wrong, why in (
            ("", "a name has 1 to 255 bytes, not 0"),
            ("a\0", "a name has no control characters"),
            ("x" * 256, "a name has 1 to 255 bytes, not 256"),
        ):
            if topic == wrong:
                return Code.BAD_TOPIC, f"the topic can't have this name: {why}"
        if topic == SEALED:
            return Code.TOPIC_SEALED, f"the topic {SEALED} takes no more messages"
        if self._transaction is None:
            return Code.NONE, ""
        self._bytes += len(record) + 4
        self._failed = self._failed or self._bytes > TRANSACTION_BYTES_MAX
        if not self._failed:
            return Code.NONE, ""
        text = f"the transaction is over the limit of {TRANSACTION_BYTES_MAX} bytes"
        return Code.TRANSACTION_FAILED, f"{text}; it can only be rolled back"

    def _turn(self) -> None:
        """Begin a transaction, or end it; sometimes where that can't be."""
        inside = self._transaction is not None
        right = ("commit", "commit", "rollback") if inside else ("begin",)
        what = self._random.choice(right if self._random.random() < 0.97 else ("begin", "commit", "rollback"))
        ask, reply = {
            "begin": (client.begin, Reply.BEGUN),
            "commit": (client.commit, Reply.COMMITTED),
            "rollback": (client.rollback, Reply.ROLLED_BACK),
        }[what]
        self.script.add(what, ask(self._id))
        if what == "begin" and inside:
            self.script.code = Code.IN_TRANSACTION
        elif what != "begin" and not inside:
            self.script.code = Code.NO_TRANSACTION
        elif what == "commit" and self._failed:
            self.script.code = Code.COMMIT_FAILED
        else:
            self.script.replies.append(told(reply, self._id))
            if what == "commit" and self._transaction:
                self.units.append(self._transaction)
            self._transaction = [] if what == "begin" else None
            self._bytes, self._failed = 0, False

    def _end(self) -> None:
        end(self._random, self.script)


class LoneReader:
    """A reader that is alone in its group, on a topic that nobody writes to."""

    def __init__(self, random: Random, name: str, records: Sequence[bytes], *, auto: bool, consumer: bool) -> None:
        self._random = random
        self._records = records
        self._auto = auto
        self._consumer = consumer
        self._credit: int | None = 0 if consumer else None
        self._next = 0
        self._id = 0
        self._out: set[int] = set()
        self._back: set[int] = set()
        self._acked: set[int] = set()
        self._outstanding_max = LIMITS.outstanding_records_max
        # A slow one is sent messages when it takes others: what it could acknowledge depends on that.
        self.script = Script(name, meta_bytes=0 if auto else 8, slow=auto)

    def make(self, requests: int, outstanding_max: int) -> LoneReader:
        """So many requests at most."""
        self._outstanding_max = outstanding_max
        script = self.script
        connected = replies.reader_connected(self._auto, script.meta_bytes)
        script.add("connect", client.connect_reader(script.name, consumer=self._consumer), connected)
        self._push()
        for _ in range(requests):
            if script.code is None and not script.shut:
                self._ask()
        return self

    @property
    def acknowledged(self) -> set[int]:
        """What counts as acknowledged in the end."""
        return set(range(self._next)) if self._auto else self._acked

    def _ask(self) -> None:
        draw = self._random.random()
        if self._consumer and draw < 0.3:
            count = self._random.choice((0, 1, 1, 2, 3, 5))
            assert self._credit is not None
            self._credit += count
            self.script.add(f"fetch({count})", client.fetch(count))
        elif draw < 0.97:
            # Runs of one kind become one request.
            back = self._random.random() < 0.4
            for _ in range(self._random.choice((1, 1, 2, 3))):
                self._acknowledge(back)
                self._push()
        else:
            end(self._random, self.script)
        self._push()

    def _acknowledge(self, back: bool) -> None:
        self._id += 1
        number = self._random.choice([*self._out, *self._out, *self._back, *self._acked, NEVER, self._next])
        meta = b"" if self._auto else pack(">Q", number)
        code, text = self._settle(number, back)
        reply = Reply.GIVEN_BACK if back else Reply.ACKNOWLEDGED
        name = f"{'nack' if back else 'ack'}({number if number != NEVER else 'never'})"
        self.script.add(name, client.acknowledge(self._id, meta, back=back), answer(reply, self._id, code, text))

    def _settle(self, number: int, back: bool) -> tuple[int, str]:
        if self._auto:
            return Code.NONE, ""
        if number in self._out or number in self._back:
            self._out.discard(number)
            self._back.discard(number)
            (self._back if back else self._acked).add(number)
            return Code.NONE, ""
        if number in self._acked and not back:
            return Code.NONE, ""
        return Code.NOT_DELIVERED, f"message {number} is not out"

    def _push(self) -> None:
        """Send what is there and wanted: what came back first."""
        while self._credit != 0 and (self._auto or len(self._out) < self._outstanding_max):
            if self._back:
                number = min(self._back)
                self._back.discard(number)
            elif self._next < len(self._records):
                number = self._next
                self._next += 1
            else:
                return
            if not self._auto:
                self._out.add(number)
            if self._credit is not None:
                self._credit -= 1
            self.script.messages.append(
                replies.messages(Batch.of([self._records[number]]), None if self._auto else number)
            )


def end(random: Random, script: Script) -> None:
    """Some end of a stream."""
    what = random.choice(("disconnect", "shut", "unknown", "misplaced"))
    if what == "disconnect":
        script.add(what, client.DISCONNECT + b"what follows is nothing", replies.DISCONNECTED)
        script.code = 0
    elif what == "shut":
        script.asked.append(what)
        script.shut = True
        script.code = 0
    else:
        script.add(what, b"\3" if what == "unknown" else client.connect_writer(1))
        script.code = Code.UNKNOWN_OPCODE if what == "unknown" else Code.OUT_OF_PLACE


class Stream:
    """A stream on its way: what is to be sent, in pieces, and what was told."""

    def __init__(self, random: Random, peer: StreamPeer, script: Script) -> None:
        self.peer = peer
        self.script = script
        self.told = b""
        data = script.data
        cuts = sorted(random.sample(range(len(data) + 1), min(len(data), random.choice((0, 0, 1, 3, 8)))))
        self.pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        if script.slow and random.random() < 0.4:
            peer.wire.slow = True
            peer.wire.buffer_bytes = random.choice((0, 10, 1000))

    def step(self) -> None:
        """Send a piece, and the end behind the last one."""
        self.peer.send(self.pieces.pop(0))
        if not self.pieces and self.script.shut:
            self.peer.shut()

    def take(self) -> None:
        self.told += self.peer.take()


def message(number: int) -> bytes:
    """The message of a topic by its number. Some are so large that few of them are read at once."""
    return b"m%d." % number + bytes(3000 if number % 5 == 3 else 0)


class Group:
    """What a group's readers got and acknowledged, all together."""

    def __init__(self) -> None:
        self.published = 0
        self.holders: dict[int, Sharer] = {}
        """Who has a message, and may acknowledge it."""
        self.done: set[int] = set()
        """What is acknowledged: its reader was told so, or need not ask."""
        self.perhaps: set[int] = set()
        """What may be: its reader went before it was told."""

    def got(self, reader: Sharer, number: int, record: bytes) -> None:
        """A reader got a message: nobody else has it, and nobody ever had it to the end."""
        assert record == message(number) and number < self.published, f"{reader.name} got {record!r} as {number}"
        assert number not in self.done, f"{reader.name} got {number}, which is done with"
        holder = self.holders.get(number)
        assert holder is None or holder is reader or holder.leaving, f"{reader.name} got {number} of {holder.name}"
        assert number not in reader.held, f"{reader.name} got {number} twice"
        if reader.auto:
            self.done.add(number)
        else:
            self.holders[number] = reader
            reader.held.add(number)


class Sharer:
    """A reader that shares a group with others, driven by what it gets."""

    def __init__(
        self, random: Random, group: Group, peer: StreamPeer, *, name: str, auto: bool, consumer: bool
    ) -> None:
        self._random = random
        self._group = group
        self._peer = peer
        self._id = 0
        self._due: deque[tuple[bytes, int | None]] = deque()
        """The replies to come, and what each of them acknowledges."""
        self._rest = b""
        self._fetched: int | None = 0 if consumer else None
        self._out = b""
        self.name = name
        self.auto = auto
        self.held: set[int] = set()
        self.leaving = False
        """Whether it has said that it goes: what it has may go to others."""
        self.gone = False
        if random.random() < 0.3:
            peer.wire.slow = True
            peer.wire.buffer_bytes = random.choice((0, 30, 1000))
        connected = replies.reader_connected(auto, 0 if auto else 8)
        self._ask(client.connect_reader("auto" if auto else "manual", consumer=consumer), connected)

    def _ask(self, data: bytes, reply: bytes | None = None, acknowledges: int | None = None) -> None:
        self._out += data
        if reply is not None:
            self._due.append((reply, acknowledges))

    def step(self) -> None:
        """Ask for something, or send what was asked so far, some of it or all."""
        draw = self._random.random()
        if draw < 0.4 or self.leaving:
            cut = self._random.choice((len(self._out), len(self._out), self._random.randrange(len(self._out) + 1)))
            data, self._out = self._out[:cut], self._out[cut:]
            if data:
                self._peer.send(data)
        elif draw < 0.6 and self._fetched is not None:
            count = self._random.choice((0, 1, 2, 7))
            self._fetched += count
            self._ask(client.fetch(count))
        elif draw < 0.95:
            self._acknowledge(self._random.random() < 0.3)
        else:
            self.leaving = True
            self._ask(client.DISCONNECT, replies.DISCONNECTED)

    def _acknowledge(self, back: bool) -> None:
        self._id += 1
        reply = Reply.GIVEN_BACK if back else Reply.ACKNOWLEDGED
        if self.auto:
            self._ask(client.acknowledge(self._id, b"", back=back), answer(reply, self._id))
            return
        number = self._random.choice([*sorted(self.held), NEVER])
        wrong = (Code.NOT_DELIVERED, f"message {number} is not out") if number == NEVER else ()
        self.held.discard(number)
        if back and self._group.holders.get(number) is self:
            del self._group.holders[number]
        acknowledges = None if back or number == NEVER else number
        data = client.acknowledge(self._id, pack(">Q", number), back=back)
        self._ask(data, answer(reply, self._id, *wrong), acknowledges)

    def take(self) -> None:
        """See what came: each reply is the next one that is due."""
        self._see(self._peer.take())

    def _see(self, data: bytes) -> None:
        for frame in frames(data, 0 if self.auto else 8):
            if frame[0] != Reply.MESSAGE:
                reply, number = self._due.popleft()
                assert frame == reply, f"{self.name} was told {frame!r} in place of {reply!r}"
                if number is not None:
                    self._group.done.add(number)
                    self._group.perhaps.discard(number)
                    self._group.holders.pop(number, None)
                continue
            record = frame[5 if self.auto else 13 :]
            number = int(record[1:].partition(b".")[0]) if self.auto else int.from_bytes(frame[1:9], "big")
            if self._fetched is not None:
                self._fetched -= 1
                assert self._fetched >= 0, f"{self.name} got more than it fetched"
            if not self.leaving or self.auto:
                self._group.got(self, number, record)

    def go(self) -> None:
        """Be gone without a word. What was written to the stream of one that need not acknowledge counts as done."""
        self.leaving = self.gone = True
        self._see(self._peer.wire.value() if self.auto else b"")
        self._group.perhaps |= {number for _, number in self._due if number is not None}
        self._peer.drop()

    def finish(self) -> None:
        """Send what was asked, and take all answers."""
        self._peer.send(self._out)
        self._out = b""
        self._see(self._peer.take_all())
        assert not self._due, f"{self.name} was not told {self._due}"
