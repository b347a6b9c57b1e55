"""The daemon is asked to end while everybody is busy: what it took on is finished, answered, and there afterwards."""

from __future__ import annotations

import contextlib
import socket
import threading

from streamd.wire import fujin_replies as replies
from tests.protocols.laws.description import Description
from tests.protocols.laws.every import SERVED_READING, WRITING, every
from tests.protocols.laws.held import contents
from tests.protocols.laws.served import ServedLaw
from tests.protocols.laws.sesp import SespOverTls
from tests.rigs.daemon import Daemon
from tests.rigs.protocols.rig import Rig
from tests.rigs.protocols.sockets import receive, receive_all

WRITERS = 3
ANSWERED_BYTES = 1000
RECORDS = [b"%04d" % number * 2500 for number in range(600)]


class Writer(threading.Thread):
    """Writes numbered records, many of them at once, until the daemon is gone."""

    def __init__(self, connection: socket.socket, spoken: Description) -> None:
        super().__init__()
        self._connection = connection
        self._spoken = spoken
        self._expected: list[bytes] = []
        self.told = b""
        self.busy = threading.Event()

    def run(self) -> None:
        try:
            while True:
                for _ in range(20):
                    self._write(b"%d:%d" % (self._spoken.number, len(self._expected)))
                self._receive()
        except OSError:
            # It takes no more. What it had to say may still be there.
            with contextlib.suppress(OSError):
                while True:
                    self._receive()
        finally:
            self.busy.set()

    def _write(self, record: bytes) -> None:
        asked, told = self._spoken.write(record)
        self._expected.append(told)
        self._connection.sendall(asked)

    def _receive(self) -> None:
        part = self._connection.recv(1 << 16)
        if not part:
            raise ConnectionResetError
        self.told += part
        if len(self.told) > ANSWERED_BYTES:
            self.busy.set()

    def acknowledged(self) -> int:
        """How many records the daemon said are stored."""
        return self._spoken.answered(self.told, self._expected)


@every([*WRITING, SespOverTls])
class Stopped(ServedLaw):
    """With SIGTERM everything comes to an orderly end."""

    def test_writers(self) -> None:
        """What was acknowledged is in the store, in order and whole, of each of those that wrote until the end."""
        daemon = self.start()
        writers = [Writer(*self.opened(daemon, number)) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.busy.wait()
        self.assert_stops(daemon)
        for writer in writers:
            writer.join()
        stored = self.stored(daemon)
        for number, writer in enumerate(writers):
            acknowledged = writer.acknowledged()
            self.assertGreater(acknowledged, 0)
            own = [record for record in stored if record.startswith(b"%d:" % number)]
            self.assertEqual(own, [b"%d:%d" % (number, each) for each in range(len(own))])
            self.assertGreaterEqual(len(own), acknowledged)

    def stored(self, daemon: Daemon) -> list[bytes]:
        """The records that are there when the store is opened again."""
        rig = Rig(str(daemon.data_dir))
        self.addCleanup(rig.close)
        records: list[tuple[int, int, bytes]] = contents(rig.store)[self.spoken.segment][-1]  # type: ignore[assignment]
        return [data for _, _, data in records]


@every([*SERVED_READING, SespOverTls])
class StoppedReaders(ServedLaw):
    """So it is for those that read."""

    def test_readers(self) -> None:
        """One that takes its answers slowly gets all of them; an idle one, and one with half a request, the end.

        Where a peer is told that the daemon ends, and is to say when it does, all of them are.
        """
        daemon = self.start("[limits]\ndrain_seconds_max = 60.0\n")
        writer, wrote = self.writing(daemon)
        self.write(writer, wrote, RECORDS)
        slow, spoken = (writer, wrote) if self.spoken.writer is None else self.opened(daemon, 1)
        (idle, other), half = self.other(daemon, 2), self.other(daemon, 3)[0]
        self.talk(idle, other.ask())
        half.sendall(other.begun[0])
        asked, told = spoken.fetch(RECORDS)
        slow.sendall(asked)
        begin = receive(slow, 100_000)
        status: list[int] = []
        stop = threading.Thread(target=lambda: status.append(daemon.terminate()))
        stop.start()
        if self.spoken.stop is None:
            self.assertEqual((idle.recv(1), half.recv(1)), (b"", b""))
        else:
            self.assertEqual((self.shut(idle), self.shut(half)), (b"", b""))
            # What it is told stands between two messages.
            begin += receive(slow, len(told) + len(replies.STOP) - len(begin))
            slow.shutdown(socket.SHUT_WR)
        self.assertTrue(self.spoken.without_stop(begin + receive_all(slow)) == told)
        stop.join()
        self.assertEqual(status, [0], daemon.output)
        self.assertNotIn("Traceback", daemon.output)

    def shut(self, connection: socket.socket) -> bytes:
        """Hear that the daemon ends, and end: what else there was."""
        self.assertEqual(receive(connection, len(replies.STOP)), replies.STOP)
        connection.shutdown(socket.SHUT_WR)
        return receive_all(connection)
