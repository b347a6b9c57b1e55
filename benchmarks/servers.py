"""How each server is found, started and stopped.

A new server, or a new protocol of streamd, is one more class with `name`, `wire` (what a load generator speaks to it),
`version` and `start`, and one more entry in `known_servers`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import IO, Protocol

from streamd.tls.server_certificate import FILE_NAME, KEY_NAME, local_certificate

_ROOT = Path(__file__).resolve().parent.parent
_HOST = "127.0.0.1"
_READY_SECONDS_MAX = 30.0
_RESTART_SECONDS_MAX = 300.0
_STOP_SECONDS_MAX = 20.0
# The topic, key, or stream that load.c publishes to where it is not told another.
_TOPIC = "bench"

BEFORE = "before"
"""What streamd of another revision is called."""


class ServerError(Exception):
    """A server did not start, or died. The text ends with the last of its log."""


@dataclass
class Running:
    """A started server. `stop` it in any case."""

    name: str
    wire: str
    port: int
    directory: Path
    command: list[str]
    ready: Callable[[Running], bool]
    process: subprocess.Popen[bytes]
    log: Path
    root: Path = _ROOT
    """The checkout whose Python it runs."""

    def memory_bytes(self) -> int:
        """The resident memory of the server now."""
        found = resident_bytes(self.process.pid)
        if found is None:
            raise ServerError(f"{self.name} has no resident memory: it is gone\n{self.log_tail()}")
        return found

    def children(self) -> list[int]:
        """The processes that the server has started."""
        found = []
        for each in Path("/proc").glob("[0-9]*/stat"):
            # Whatever it is called, behind the last bracket of the name come its state and its parent.
            with suppress(OSError):
                if int(each.read_text().rpartition(")")[2].split()[1]) == self.process.pid:
                    found.append(int(each.parent.name))
        return found

    def kill_and_restart(self) -> float:
        """Kill -9, and start again on the same data; returns the seconds until it is ready."""
        self.process.kill()
        self.process.wait()
        begun = time.perf_counter()
        self.process = _spawn(self.command, self.directory, self.log, self.root)
        self.wait_until_ready(_RESTART_SECONDS_MAX, poll_seconds=0.005)
        return time.perf_counter() - begun

    def wait_until_ready(self, seconds_max: float, poll_seconds: float = 0.05) -> None:
        """Return when it can be used; ServerError where it ends, or takes too long."""
        deadline = time.monotonic() + seconds_max
        while not self.ready(self):
            if self.process.poll() is not None:
                code = self.process.returncode
                raise ServerError(f"{self.name} ended with {code} at its start:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ServerError(f"{self.name} was not ready after {seconds_max:.0f} s:\n{self.log_tail()}")
            time.sleep(poll_seconds)

    def log_tail(self, lines: int = 12) -> str:
        """The last lines the server wrote."""
        with suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""

    def stop(self) -> None:
        """End the server: politely, then not. Returns when it is gone."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


def resident_bytes(process: int) -> int | None:
    """The resident memory of a process; None where there is none."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return None


class Server(Protocol):
    """A kind of server that can be measured."""

    @property
    def name(self) -> str: ...

    def version(self) -> str | None:
        """What is installed, in a few words; None where it is not."""

    def start(self, directory: Path, file_bytes: int, settings: str) -> Running:
        """Start it fresh on an empty directory, its log rolled at file_bytes where it has such a thing.

        `settings` is more of streamd's configuration; the others have none.
        """


@dataclass(frozen=True)
class Limit:
    """`limit.c`: receive, write, fdatasync, reply, and nothing else."""

    program: Path
    read_bytes: int = 100
    name: str = "limit"

    def version(self) -> str:
        return "limit.c of this folder"

    def start(self, directory: Path, file_bytes: int, settings: str) -> Running:
        port = _free_port()
        command = [str(self.program), str(port), str(directory), str(file_bytes), str(self.read_bytes)]
        return _start(self.name, "sesp", port, directory, command, _accepts)


@dataclass(frozen=True)
class Sink:
    """`quic_sink.py`: aioquic's own server, which receives and counts. Nothing is parsed, and nothing is stored."""

    name: str = "sink"

    def version(self) -> str:
        return f"quic_sink.py of this folder, aioquic {version('aioquic')}"

    def start(self, directory: Path, file_bytes: int, settings: str) -> Running:
        port = _free_port(socket.SOCK_DGRAM)
        # Where streamd has its own.
        data = directory / "data"
        data.mkdir()
        local_certificate(str(data))
        files = [f"--certificate={data / FILE_NAME}", f"--key={data / KEY_NAME}"]
        command = [sys.executable, "-m", "benchmarks.quic_sink", f"--port={port}", *files]
        return _start(self.name, "sink", port, directory, command, _logged("ready"))


@dataclass(frozen=True)
class Streamd:
    """The daemon of a checkout, this one, with one of its protocols on and the others off."""

    name: str = "streamd"
    service: str = "sesp"
    root: Path = _ROOT
    services: tuple[str, ...] = ("sesp", "smq", "faststream", "pravega", "controller", "fujin", "http")

    def version(self) -> str:
        # Never None: a daemon that is broken must fail at its start, with its log, and not count as not installed.
        return _output([*self._twistd(), "streamd", "--version"], self.root) or "does not tell its version"

    def start(self, directory: Path, file_bytes: int, settings: str) -> Running:
        # Fujin is the one that is spoken over QUIC.
        kind, port = ("quic", _free_port(socket.SOCK_DGRAM)) if self.service == "fujin" else ("tcp", _free_port())
        config = directory / "streamd.toml"
        # The reserve is taken from each file: left at its default, it would be the whole of a small one.
        reserve_bytes = min(1 << 20, file_bytes // 16)
        config.write_text(f"[store]\njournal_file_bytes = {file_bytes}\nreserve_bytes = {reserve_bytes}\n{settings}")
        command = [*self._twistd(), "-n", "--pidfile=", "streamd", "--config", str(config)]
        command += ["--data-dir", str(directory / "data"), f"--{self.service}", f"{kind}:{port}:interface={_HOST}"]
        # A service that does not exist yet must not be named; one that exists would take its default port.
        options = _output([*self._twistd(), "streamd", "--help"], self.root, whole=True) or ""
        for other in self.services:
            if other != self.service and f"--{other}=" in options:
                # A controller is nothing without the segment store that it sends its clients to.
                beside = self.service == "controller" and other == "pravega"
                command += [f"--{other}", f"tcp:0:interface={_HOST}" if beside else "off"]
        return _start(self.name, self.service, port, directory, command, _logged("streamd ready"), self.root)

    @staticmethod
    def _twistd() -> list[str]:
        beside = Path(sys.executable).with_name("twistd")
        return [str(beside) if beside.exists() else shutil.which("twistd") or "twistd"]


def speaking(server: Server, service: str) -> Server:
    """The same server; where it is streamd, with this protocol on."""
    return replace(server, service=service) if isinstance(server, Streamd) else server


@dataclass(frozen=True)
class Redis:
    """Redis Streams with a sync before each reply. Rewrites of the log are off: they would only slow it down."""

    name: str = "redis"

    def version(self) -> str | None:
        text = _output(["redis-server", "--version"])
        return text and " ".join(text.split()[:3])

    def start(self, directory: Path, file_bytes: int, settings: str) -> Running:
        port = _free_port()
        command = ["redis-server", "--port", str(port), "--bind", _HOST, "--dir", str(directory), "--save", ""]
        command += ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]
        return _start(self.name, "redis", port, directory, command, _accepts)


@dataclass(frozen=True)
class Nats:
    """NATS JetStream, file storage, as installed: it acknowledges before the data is synced."""

    name: str = "nats"

    def version(self) -> str | None:
        text = _output(["nats-server", "--version"])
        return text and f"{text}, does not sync before it acknowledges"

    def start(self, directory: Path, file_bytes: int, settings: str) -> Running:
        port = _free_port()
        command = ["nats-server", "-a", _HOST, "-p", str(port), "-js", "-sd", str(directory)]
        running = _start(self.name, "nats", port, directory, command, _accepts)
        try:
            _create_stream(port, _TOPIC)
        except BaseException:
            running.stop()
            raise
        return running


def known_servers(limit: Path) -> Sequence[Server]:
    """All servers, in the order in which they are measured and printed."""
    return (Limit(limit), Sink(), Streamd(), Redis(), Nats())


def _create_stream(port: int, stream: str) -> None:
    """Ask JetStream for a stream on disk, over the plain protocol: a client library would be a dependency."""
    body = json.dumps({"name": stream, "subjects": [stream], "storage": "file"}).encode()
    with socket.create_connection((_HOST, port), timeout=10) as connection, connection.makefile("rwb") as lines:
        request = f"PUB $JS.API.STREAM.CREATE.{stream} _INBOX.create {len(body)}\r\n".encode()
        lines.write(b'CONNECT {"verbose":false}\r\nSUB _INBOX.create 1\r\n' + request + body + b"\r\n")
        lines.flush()
        for line in lines:
            if line.startswith(b"MSG "):
                reply = json.loads(lines.readline())
                if "error" in reply:
                    raise ServerError(f"nats refused the stream: {reply['error']}")
                return
            if line.startswith(b"-ERR"):
                raise ServerError(f"nats refused the stream: {line.decode().strip()}")
    raise ServerError("nats closed the connection before it had made the stream")


def _start(
    name: str,
    wire: str,
    port: int,
    directory: Path,
    command: list[str],
    ready: Callable[[Running], bool],
    root: Path = _ROOT,
) -> Running:
    log = directory.with_name(f"{directory.name}.log")
    running = Running(name, wire, port, directory, command, ready, _spawn(command, directory, log, root), log, root)
    try:
        running.wait_until_ready(_READY_SECONDS_MAX)
    except BaseException:
        running.stop()
        raise
    return running


def _spawn(command: list[str], directory: Path, log: Path, root: Path) -> subprocess.Popen[bytes]:
    output: IO[bytes]
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=directory,
            env=_environment(root),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C goes to this program alone, which then stops its servers one by one.
            start_new_session=True,
        )


def _environment(root: Path) -> dict[str, str]:
    """Ours, with a checkout first on Python's path, so that its plugin and package are the ones found."""
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{path}" if path else str(root)}


@contextmanager
def revision(name: str, directory: Path) -> Iterator[Streamd]:
    """The daemon as it was at another revision, checked out for as long as it is needed."""
    root = directory / BEFORE
    git = ["git", "-C", str(_ROOT), "worktree"]
    done = subprocess.run([*git, "add", "--detach", str(root), name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerError(f"{name} can't be checked out: {done.stderr.strip()}")
    try:
        yield Streamd(name=BEFORE, root=root)
    finally:
        subprocess.run([*git, "remove", "--force", str(root)], capture_output=True, check=False)


def _accepts(running: Running) -> bool:
    try:
        socket.create_connection((_HOST, running.port), timeout=1).close()
    except OSError:
        return False
    return True


def _logged(text: str) -> Callable[[Running], bool]:
    return lambda running: text in running.log.read_text(errors="replace")


def _free_port(kind: int = socket.SOCK_STREAM) -> int:
    with socket.socket(type=kind) as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _output(command: list[str], directory: Path | None = None, *, whole: bool = False) -> str | None:
    """The last line, or all, of what a command prints; None where it does not exist or fails."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            cwd=directory,
            env=_environment(directory or _ROOT),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode or not done.stdout.strip():
        return None
    return done.stdout if whole else done.stdout.strip().splitlines()[-1]
