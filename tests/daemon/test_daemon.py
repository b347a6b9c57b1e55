"""The daemon as its operator meets it: a real process, its exit status and what it says."""

from __future__ import annotations

import json
import os
import signal
import socket

from tests.rigs.daemon import READY
from tests.rigs.operated import DaemonCase

LOOPBACK = "tcp:0:interface=127.0.0.1"


class LifeTests(DaemonCase):
    def test_ready(self) -> None:
        """When it says it is ready, it answers."""
        daemon = self.daemon().start()
        self.assert_answers(daemon.connect())

    def test_stop(self) -> None:
        """SIGTERM and SIGINT stop it in order, with status 0 and nothing on standard error."""
        daemon = self.daemon()
        for number in (signal.SIGTERM, signal.SIGINT):
            daemon.start()
            self.assertEqual(daemon.terminate(number), 0, daemon.output)
            self.assertEqual(daemon.errors, [])
            self.assertIn("streamd stopped", daemon.output)

    def test_stop_with_connections(self) -> None:
        """An idle connection is closed in order at the end, and does not hold it up."""
        daemon = self.daemon().start()
        with daemon.connect() as connection, connection.makefile("rwb") as stream:
            # An answer shows that the daemon has the connection. One that it has not accepted yet is the kernel's,
            # which resets it when the port closes.
            self.ask(stream)
            self.assertEqual(daemon.terminate(), 0, daemon.output)
            self.assertEqual(stream.read(), b"")

    def test_data_stays(self) -> None:
        """What was acknowledged is there for the next daemon, after a stop as after a crash."""
        daemon = self.daemon()
        for end in (daemon.terminate, daemon.kill):
            daemon.start()
            with daemon.connect() as connection, connection.makefile("rwb") as stream:
                stream.write(f"#{end.__name__}\n@{end.__name__}\n>hello\n".encode())
                stream.flush()
                self.assertEqual([stream.readline() for _ in range(3)], [b"+\n"] * 3)
            end()
            daemon.start()
            with daemon.connect() as connection, connection.makefile("rwb") as stream:
                stream.write(f"@{end.__name__}\n<\n".encode())
                stream.flush()
                self.assertEqual([stream.readline() for _ in range(2)], [b"+\n", b"+hello\n"])
            daemon.terminate()

    def test_defaults(self) -> None:
        """The store is in streamd-data of the working directory where nobody says otherwise."""
        daemon = self.daemon("--data-dir", "streamd-data").start()
        daemon.terminate()
        named = sorted(os.listdir(self.directory / "streamd-data"))
        self.directory = self.directory / "other"
        config = "[sesp]\nendpoint = 'tcp:0:interface=127.0.0.1'"
        self.directory.mkdir()
        daemon = self.daemon("--config", self.write("streamd.toml", config)).start()
        daemon.terminate()
        self.assertEqual(sorted(os.listdir(self.directory / "streamd-data")), named)

    def test_background(self) -> None:
        """In the background it logs to its file; a failure reaches who started it, and leaves no PID file."""
        first = self.daemon().start()
        behind = ["--pidfile=second.pid", "--logfile=second.log"]
        second = self.daemon(twistd=behind)
        self.assertEqual(second.spawn().wait(), 1, second.output)
        self.assertIn("StartFailed", second.output)
        self.assertFalse((self.directory / "second.pid").exists())
        self.assertNotIn("Traceback", (self.directory / "second.log").read_text())
        first.terminate()


class EndpointTests(DaemonCase):
    def test_off(self) -> None:
        """A service that is off does not listen; the daemon is ready all the same."""
        daemon = self.daemon("--sesp", "off").start()
        self.assertEqual(daemon.addresses("sesp"), [])
        self.assertEqual(daemon.terminate(), 0)

    def test_several(self) -> None:
        """Several endpoints of one service all answer."""
        path = os.path.relpath(self.directory / "s", self.directory)
        daemon = self.daemon("--sesp", LOOPBACK, "--sesp", f"unix:{path}", "--sesp", LOOPBACK).start()
        one, unix, two = daemon.addresses("sesp")
        for address in (one, two):
            host, _, port = address.rpartition(":")
            self.assert_answers(socket.create_connection((host, int(port)), 60))
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(60)
        # A path of the trial directory can be too long for a socket's address; a descriptor's name never is.
        holder = os.open(self.directory, os.O_RDONLY)
        self.addCleanup(os.close, holder)
        connection.connect(f"/proc/self/fd/{holder}/{unix}")
        self.assert_answers(connection)
        self.assertEqual(daemon.terminate(), 0, daemon.output)
        self.assertFalse((self.directory / "s").exists())

    def test_in_use(self) -> None:
        """A port that somebody has ends the start, and the store is free again."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            endpoint = f"tcp:{taken.getsockname()[1]}:interface=127.0.0.1"
            said = self.refused(self.daemon("--sesp", LOOPBACK, "--sesp", endpoint))
            self.assertEqual(said, f"streamd: sesp can't listen on {endpoint}: Address already in use")
        self.assertEqual(self.daemon().start().terminate(), 0)

    def test_no_such_directory(self) -> None:
        """Nor can it listen where there is no directory for the socket."""
        said = self.refused(self.daemon("--sesp", "unix:nowhere/s"))
        self.assertIn("sesp can't listen on unix:nowhere/s: ", said)


class StoreTests(DaemonCase):
    def test_second(self) -> None:
        """A data directory has one daemon; a second one says so, and the first goes on."""
        first = self.daemon().start()
        second = self.daemon(twistd=["-n", "--pidfile=second.pid"])
        self.assertIn(str(first.data_dir), self.refused(second))
        self.assertFalse((self.directory / "second.pid").exists())
        self.assert_answers(first.connect())
        self.assertEqual(first.terminate(), 0)

    def test_said_once(self) -> None:
        """Where log and standard error are the same terminal, the reason stands there once."""
        self.daemon().start()
        second = self.daemon(errors_in_log=True)
        self.assertEqual(second.spawn().wait(), 1)
        self.assertEqual(second.output.count("data: "), 1, second.output)

    def test_foreign(self) -> None:
        """A directory with something else in it is left alone."""
        daemon = self.daemon()
        daemon.data_dir.mkdir()
        (daemon.data_dir / "letter.txt").write_text("dear")
        self.assertIn(str(daemon.data_dir), self.refused(daemon))
        self.assertEqual(os.listdir(daemon.data_dir), ["letter.txt"])

    def test_not_a_directory(self) -> None:
        """A file in the place of the directory is told as what it is."""
        self.assertIn("file", self.refused(self.daemon("--data-dir", self.write("file", ""))))


class ConfigTests(DaemonCase):
    def test_file(self) -> None:
        """Settings come from the file."""
        text = f'data_dir = "here"\n[log]\nformat = "json"\n[sesp]\nendpoint = "{LOOPBACK}"'
        daemon = self.daemon("--config", self.write("streamd.toml", text)).start()
        self.assertTrue((self.directory / "here").is_dir())
        self.assertEqual(json.loads(daemon.wait_for_line(READY))["message"], READY)

    def test_errors(self) -> None:
        """A mistake in the file is told with file and key before anything is opened."""
        for text, key in (
            ("[limits]\nmessage_byte_max = 1", "limits.message_byte_max: no such key; did you mean message_bytes_max?"),
            ('[limits]\nmessage_bytes_max = "x"', 'limits.message_bytes_max: expected an integer, got "x"'),
            ('[sesp]\nendpoint = "tcp:x"', "sesp.endpoint: bad endpoint \"tcp:x\": 'x' is not a number"),
            ("[sesp]\nno_such_thing = 1", "sesp.no_such_thing: "),
            ("data_dir =", "not valid TOML: "),
        ):
            path = self.write("streamd.toml", text)
            said = self.refused(self.daemon("--config", path, "--data-dir", "data"))
            self.assertEqual(said[: len(f"streamd: {path}: {key}")], f"streamd: {path}: {key}")
            self.assertEqual(sorted(os.listdir(self.directory)), ["streamd.toml"])

    def test_options(self) -> None:
        """So is a mistake on the command line."""
        self.assertIn("streamd: --sesp: bad endpoint", self.refused(self.daemon("--sesp", "4840")))
        self.assertIn("streamd: option --nonsense not recognized", self.refused(self.daemon("--nonsense")))
        self.assertEqual(os.listdir(self.directory), [])


class LogTests(DaemonCase):
    def test_json(self) -> None:
        """With JSON every line of the log is JSON, twistd's own ones too, from the first to the last."""
        daemon = self.daemon("--log-format", "json").start()
        self.assertEqual(daemon.terminate(), 0)
        for line in daemon.log:
            self.assertLessEqual({"time", "level", "namespace", "message"}, set(json.loads(line)))
        self.assertEqual(daemon.errors, [])

    def test_json_file(self) -> None:
        """So it is in twistd's --logfile, and standard output stays empty."""
        daemon = self.daemon("--log-format", "json", twistd=["-n", "--pidfile=", "--logfile=log"])
        # It says nothing where we could wait for it, so it is made to end by itself.
        daemon.data_dir.mkdir()
        (daemon.data_dir / "letter.txt").write_text("dear")
        self.refused(daemon)
        lines = (self.directory / "log").read_text().splitlines()
        self.assertEqual(json.loads(lines[-1])["level"], "critical")
        self.assertEqual(daemon.log, [])

    def test_level(self) -> None:
        """A level keeps all below it out of the log."""
        daemon = self.daemon("--log-level", "critical")
        daemon.data_dir.mkdir()
        (daemon.data_dir / "letter.txt").write_text("dear")
        self.refused(daemon)
        self.assertEqual(len(daemon.log), 1, daemon.output)
