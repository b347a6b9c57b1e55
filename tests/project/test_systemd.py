"""The systemd units: what they restrict, that the daemon lives with it, and that it takes the sockets it is handed."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import sys
from io import BufferedRWPair
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.cli import parser
from streamd.cli.command import USAGE
from streamd.daemon.process import EXIT_IO
from streamd.plugin import found_protocols
from streamd.tls.server_certificate import CA_NAME
from streamd.wire.smq import EMPTY
from tests.rigs.confined import settings, system_calls, systemd_analyze
from tests.rigs.daemon import CHECKOUT, DEADLINE_SECONDS, Daemon
from tests.rigs.examples import ENVIRONMENT, FUJIN, command
from tests.rigs.operated import DaemonCase
from tests.rigs.protocols.sockets import receive, receive_all, write_certificate
from tests.rigs.publishers import compactors
from tests.rigs.wire.smq import pull

UNITS = CHECKOUT / "etc" / "systemd"
SERVICE = UNITS / "streamd.service"
SOCKET = UNITS / "streamd.socket"
PIPELINE = UNITS / "streamd-pipeline@.service"

# systemd's own measure, from 0 for a service that may nothing to 10 for one that may everything.
EXPOSURE_MAX = 1.5

# As systemd hands over sockets: as descriptors from 3 on, counted and named, for this process and no other.
HAND_OVER = """\
import fcntl, os, sys
given, names, *command = sys.argv[1:]
given = [int(each) for each in given.split(",")]
held = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 100) for each in given]
for each in given:
    os.close(each)
for number, descriptor in enumerate(held, 3):
    os.dup2(descriptor, number)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(held)), LISTEN_FDNAMES=names)
os.execv(command[0], command)
"""


class UnitTests(SynchronousTestCase):
    def test_exposure(self) -> None:
        """What a service may do beside its work is little, by systemd's own count."""
        for unit in (SERVICE, PIPELINE):
            report = systemd_analyze("security", "--offline=yes", "--no-pager", str(unit))
            found = re.search(r"Overall exposure level for streamd\S*\.service: ([\d.]+)", report)
            assert found is not None, report
            self.assertLessEqual(float(found[1]), EXPOSURE_MAX, report)

    def test_settings(self) -> None:
        """The service is started by the readiness, watched, and not started again on a disk that fails."""
        unit = settings(SERVICE)
        for key, value in {
            "Type": "notify",
            "DynamicUser": "yes",
            "StateDirectory": "streamd",
            "RestartPreventExitStatus": str(EXIT_IO),
        }.items():
            self.assertEqual(unit[key], [value])
        self.assertIn("WatchdogSec", unit)
        self.assertNotIn("PrivateUsers", unit)  # user:NAME in a rule of access would be somebody else

    def test_socket(self) -> None:
        """The socket unit holds the default port of the protocol that its descriptor is named after."""
        unit = settings(SOCKET)
        (protocol,) = (each for each in found_protocols() if [each.name] == unit["FileDescriptorName"])
        address, _, port = unit["ListenStream"][0].partition(":")
        self.assertEqual(protocol.default, f"tcp:{port}:interface={address}")
        self.assertEqual(unit["Service"], [SERVICE.name])

    def test_pipeline(self) -> None:
        """A pipeline is run by a command that there is, and not again where its file can't be used."""
        unit = settings(PIPELINE)
        program, *arguments = unit["ExecStart"][0].split()
        self.assertEqual(program, "/opt/streamd/current/bin/streamctl")
        chosen = parser().parse_args(arguments)
        self.assertEqual((chosen.run.__module__, chosen.once), ("streamd.cli.spark.pipeline", False))
        self.assertEqual(unit["RestartPreventExitStatus"], [str(USAGE)])
        self.assertEqual(unit["ConditionPathExists"], [arguments[-1]])


class ConfinedTests(DaemonCase):
    """The daemon under the unit's system call filter and without capabilities."""

    launcher = (sys.executable, "-m", "tests.rigs.confined", str(SERVICE))

    def confined(self, script: str) -> str:
        """What a script prints under the restrictions."""
        command = [*self.launcher, sys.executable, "-c", script]
        ended = subprocess.run(
            command, cwd=CHECKOUT, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
        )
        return ended.stdout + ended.stderr

    def test_refused(self) -> None:
        """The restrictions are really there: what the daemon has no need of is refused, and its own calls are not."""
        self.assertIn("Operation not permitted", self.confined("import os; os.chroot('/')"))
        self.assertIn("Operation not permitted", self.confined("import socket; socket.socket(socket.AF_NETLINK)"))
        self.assertEqual(self.confined("import socket; socket.socket(socket.AF_INET); print('well')"), "well\n")

    def test_groups(self) -> None:
        """Of the groups of system calls those that nobody needs are left out, and what the compactor needs is in."""
        allowed = system_calls(settings(SERVICE)["SystemCallFilter"])
        self.assertLessEqual({"preadv2", "fdatasync", "fallocate", "execve", "setpriority", "eventfd2"}, allowed)
        self.assertEqual({"mount", "ptrace", "bpf", "reboot", "chown", "setuid", "init_module"} & allowed, set())

    def test_daemon(self) -> None:
        """It serves TCP, TLS and QUIC, its compactor folds, niced, and it stops in order."""
        certificate = str(self.directory / "certificate")
        write_certificate(certificate)
        secure = f"ssl:0:interface=127.0.0.1:privateKey={certificate}:certKey={certificate}"
        options = ["--sesp", "tcp:0:interface=127.0.0.1", "--sesp", secure, "--fujin", "quic:0:interface=127.0.0.1"]
        config = self.write("streamd.toml", 'data_dir = "data"\n[store]\njournal_file_bytes = 1048576\n')
        for protocol in found_protocols():
            if f"--{protocol.name}" not in options:
                options += [f"--{protocol.name}", "off"]
        daemon = self.daemon(
            *("--config", config, "--log-level", "debug", *options),
            launcher=self.launcher,
            environment={"PYTHONPATH": str(CHECKOUT)},
        ).start()
        with daemon.connect() as connection, connection.makefile("rwb") as stream:
            self.publish(stream, "tcp")
        daemon.wait_for_line("are folded into pack")
        (pid,) = compactors(daemon.pid)
        self.assertEqual(os.getpriority(os.PRIO_PROCESS, pid), min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19))
        plain = socket.create_connection(
            ("127.0.0.1", int(daemon.addresses("sesp")[1].rpartition(":")[2])), DEADLINE_SECONDS
        )
        context = ssl.create_default_context(cafile=certificate)
        with context.wrap_socket(plain, server_hostname="localhost") as tls, tls.makefile("rwb") as stream:
            self.publish(stream, "tls")
        self.assert_quic(daemon)
        self.assertEqual(daemon.terminate(), 0, daemon.output)
        self.assertNotIn("Traceback", daemon.output)
        self.assertNotIn("Operation not permitted", daemon.output)

    def assert_quic(self, daemon: Daemon) -> None:
        """A client over QUIC, with the certificate that the daemon has made for itself, gets its answers."""
        name = "fujin_transaction.py"
        ended = subprocess.run(
            [*command(name, f"127.0.0.1:{daemon.port('fujin')}"), str(daemon.data_dir / CA_NAME)],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        self.assertEqual((ended.stdout, ended.stderr), (FUJIN[name], ""), daemon.output)

    def publish(self, stream: BufferedRWPair[Any, Any], topic: str) -> None:
        """Two megabytes to a new topic, which is more than a journal file holds here."""
        lines = [f"#{topic}\n@{topic}\n".encode(), *[b">" + b"x" * 65536 + b"\n"] * 32]
        stream.write(b"".join(lines))
        stream.flush()
        self.assertEqual([stream.readline() for _ in range(34)], [b"+\n"] * 34)


class ExitTests(DaemonCase):
    """The statuses that streamd(8) tells, as far as the other tests have not seen them."""

    def test_told(self) -> None:
        """The page tells all that there are."""
        text = (CHECKOUT / "man" / "streamd.8").read_text(encoding="utf-8")
        told = text.partition(".Sh EXIT STATUS\n")[2].partition("\n.Sh ")[0]
        self.assertEqual(re.findall(r"^\.It (.*)", told, re.MULTILINE), ["0", "1", str(EXIT_IO)])

    def test_failed_sync(self) -> None:
        """A disk that fails to sync ends the daemon with a status of its own, and nothing is acknowledged."""
        daemon = self.daemon().start()
        self.assertEqual(daemon.terminate(), 0, daemon.output)
        launcher = [sys.executable, "-m", "tests.rigs.confined", "--failing", "fdatasync"]
        broken = self.daemon(launcher=launcher, environment={"PYTHONPATH": str(CHECKOUT)}).start()
        with broken.connect() as connection:
            connection.sendall(b"#topic\n")
            self.assertEqual(receive_all(connection), b"")
        self.assertEqual(broken.wait(), EXIT_IO, broken.output)
        self.assertIn("the journal can't be written", broken.output)
        self.assertEqual(self.daemon().start().terminate(), 0)


class HandedOverTests(DaemonCase):
    """Sockets that somebody else holds, as systemd does for a socket unit."""

    def setUp(self) -> None:
        super().setUp()
        self.sockets = {name: socket.create_server(("127.0.0.1", 0)) for name in ("smq", "sesp")}
        for each in self.sockets.values():
            self.addCleanup(each.close)

    def handed(self, *options: str) -> Daemon:
        """A daemon that is handed these sockets by name."""
        numbers = [each.fileno() for each in self.sockets.values()]
        launcher = [sys.executable, "-c", HAND_OVER, ",".join(map(str, numbers)), ":".join(self.sockets)]
        return self.daemon(*options, launcher=launcher, descriptors=numbers)

    def connect(self, name: str) -> socket.socket:
        connection = socket.create_connection(self.sockets[name].getsockname(), DEADLINE_SECONDS)
        self.addCleanup(connection.close)
        return connection

    def test_taken(self) -> None:
        """Each service takes the socket of its name, and says where that is."""
        taken = [f"systemd:domain=INET:name={name}" for name in ("sesp", "smq")]
        daemon = self.handed("--sesp", taken[0], "--smq", taken[1]).start()
        self.assert_answers(self.connect("sesp"))
        with self.connect("smq") as connection:
            connection.sendall(pull())
            self.assertEqual(receive(connection, len(EMPTY)), EMPTY)
        for name, each in self.sockets.items():
            self.assertEqual(daemon.port(name), each.getsockname()[1])
        self.assertEqual(daemon.terminate(), 0, daemon.output)

    def test_restart(self) -> None:
        """Who connects while there is no daemon is answered by the next one."""
        daemon = self.handed("--sesp", "systemd:domain=INET:name=sesp").start()
        self.assert_answers(self.connect("sesp"))
        self.assertEqual(daemon.terminate(), 0, daemon.output)
        early = self.connect("sesp")
        early.sendall(b"@no such topic\n")
        daemon.start()
        self.assertEqual(receive(early, 19), b"-NoSuchTopicExists\n")
        early.close()
        self.assertEqual(daemon.terminate(), 0, daemon.output)

    def test_not_handed_over(self) -> None:
        """A socket that nobody handed over is named, and ends the start."""
        for daemon in (
            self.handed("--sesp", "systemd:domain=INET:name=other"),
            self.daemon("--sesp", "systemd:domain=INET:name=other"),
        ):
            said = self.refused(daemon)
            self.assertIn('--sesp: bad endpoint "systemd:domain=INET:name=other": no such socket was handed over', said)
