"""The laws that concern sockets, on real ones: peers that half close, vanish, flood, and take nothing."""

from __future__ import annotations

import socket

from tests.protocols.laws.description import Exchange, joined
from tests.protocols.laws.every import SERVED, SERVED_READING, WRITING, every
from tests.protocols.laws.served import ServedLaw
from tests.protocols.laws.sesp import SespOverTls, SespOverUnix
from tests.rigs.daemon import Daemon
from tests.rigs.protocols.sockets import (
    forget_height,
    memory_bytes,
    receive,
    receive_all,
    reset,
    send_some,
    wait_for_connections,
)

MIB = 1 << 20
RECORDS = [b"%04d" % number * 2500 for number in range(2000)]

# What a connection may cost at most beside what the limits allow it: buffers, garbage that is not collected yet.
KEPT_BYTES_MAX = 16 * MIB

# What the flooding peer takes of its answers in the end.
TAKEN_BYTES = MIB // 2

# A flood has come to its end when none of it is taken while another connection gets so many answers.
ANSWERS = 300


# TLS knows no half of a connection.
@every([*SERVED, SespOverUnix])
class HalfClosed(ServedLaw):
    """A peer that sends its requests and shuts its side gets all answers, then the end."""

    def test_half_closed(self) -> None:
        """With the transcript, and half a request behind it."""
        daemon = self.start()
        self.furnish(daemon)
        asked, told = self.spoken.whole()
        peer = self.connect(daemon)
        peer.sendall(asked + self.spoken.begun[0])
        peer.shutdown(socket.SHUT_WR)
        self.assertEqual(self.spoken.comparable(receive_all(peer)), self.spoken.comparable(told))
        self.assert_stops(daemon)


@every([*WRITING, SespOverUnix])
class HalfClosedWriter(ServedLaw):
    """So it is with one that writes."""

    def test_much(self) -> None:
        """Much more than a socket's buffer holds."""
        daemon = self.start()
        peer, spoken = self.opened(daemon)
        self.talk(peer, spoken.write(b"the first one"))
        before = self.stored(daemon)
        much = joined(spoken.write(b"x") for _ in range(5000))
        peer.sendall(much.asked)
        peer.shutdown(socket.SHUT_WR)
        self.assertTrue(spoken.comparable(receive_all(peer)) == spoken.comparable(much.told))
        self.assertEqual(self.stored(daemon) - before, 5000)
        self.assert_stops(daemon)

    def stored(self, daemon: Daemon) -> int:
        """How many records were ever stored, as an administrator sees it."""
        with daemon.connect() as connection, connection.makefile("rwb") as stream:
            stream.write(b"?%b\n" % self.spoken.segment.encode())
            stream.flush()
            line: bytes = stream.readline()
            return int(line.partition(b'"next_offset": ')[2].partition(b",")[0])


@every([*SERVED, SespOverTls])
class Vanished(ServedLaw):
    """A peer that goes after any byte, in order or with a reset, hurts nobody."""

    def test_anywhere(self) -> None:
        """After each of them somebody else is answered; in the end no connection is counted, and no byte held."""
        daemon = self.start()
        self.furnish(daemon)
        asked = self.spoken.whole().asked
        # A handshake takes longer than all the rest.
        step = 25 if self.spoken.endpoint == "tls" else 1
        witness, spoken = self.other(daemon)
        for cut in range(0, len(asked) + 1, step):
            peer = self.connect(daemon)
            peer.sendall(asked[:cut])
            if cut // step % 2:
                reset(peer)
            else:
                peer.close()
            self.talk(witness, spoken.ask())
        self.talk(witness, spoken.write(b"still here"))
        wait_for_connections(daemon, 1)
        self.assert_stops(daemon)


@every([*SERVED, SespOverTls])
class Bounded(ServedLaw):
    """Peers that send without end and take nothing cost little, measured, and hold up nobody."""

    def test_flood(self) -> None:
        """Who asks and takes no reply is no longer read, until it takes them."""
        daemon = self.start()
        peer, spoken = self.asking(daemon)
        witness, other = self.other(daemon, 1)
        question = spoken.flood()
        count = 40 * MIB // len(question.asked)
        before = forget_height(daemon.pid)
        sent = self.flood(peer, memoryview(question.asked * count), witness, other.ask())
        self.assertLess(sent, count * len(question.asked), "everything was read")
        self.talk(witness, other.write(b"still here"))
        self.assertLess(memory_bytes(daemon.pid, "VmHWM") - before, KEPT_BYTES_MAX)
        told = (question.told * (sent // len(question.asked)))[:TAKEN_BYTES]
        self.assertTrue(receive(peer, len(told)) == told)
        reset(peer)
        wait_for_connections(daemon, 1)
        self.assertLess(memory_bytes(daemon.pid, "VmHWM") - before, KEPT_BYTES_MAX)

    def flood(self, peer: socket.socket, data: memoryview, witness: socket.socket, question: Exchange) -> int:
        """Send until nothing more is taken: how much was."""
        sent = answers = 0
        while answers < ANSWERS and sent < len(data):
            part = send_some(peer, data[sent:])
            sent += part
            if part:
                answers = 0
            else:
                self.talk(witness, question)
                answers += 1
        return sent


@every([*SERVED_READING, SespOverTls])
class BoundedReader(ServedLaw):
    """A peer that asks for much and does not take it costs little, measured, and holds up nobody."""

    def test_slow_reader(self) -> None:
        """What a peer asks for and does not take is not kept in memory, and comes when it takes it."""
        daemon = self.start()
        writer, spoken = self.writing(daemon)
        self.write(writer, spoken, RECORDS)
        before = forget_height(daemon.pid)
        slow, reader = self.opened(daemon, 1)
        asked, told = reader.fetch(RECORDS)
        slow.sendall(asked)
        for _ in range(ANSWERS):
            self.talk(writer, spoken.ask())
        self.assertLess(memory_bytes(daemon.pid, "VmHWM") - before, KEPT_BYTES_MAX)
        self.talk(slow, Exchange(reader.ask().asked, told + reader.ask().told))
        self.assertLess(memory_bytes(daemon.pid, "VmHWM") - before, KEPT_BYTES_MAX)
