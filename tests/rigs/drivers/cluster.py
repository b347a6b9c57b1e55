"""A real Spark cluster on this machine: a master and workers, each a process of its own, from what pip installed."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import IO, Final

import pyspark

from streamd.spark.java import java_home
from tests.rigs.daemon import CHECKOUT
from tests.rigs.spark.java import OPTIONS

_SECONDS_MAX: Final = 120.0
_LAUNCHER: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


class Process:
    """One process of the cluster, and what it says."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        environment = {
            **os.environ,
            "JAVA_HOME": java_home(),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(CHECKOUT),
            "SPARK_DAEMON_JAVA_OPTS": OPTIONS,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        self._process = subprocess.Popen(
            [_LAUNCHER, *arguments],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="backslashreplace",
        )
        self._news = threading.Condition()
        self._lines: list[str] = []
        self._ended = False
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            with self._news:
                self._lines.append(line)
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def wait_for(self, text: str) -> None:
        """Until it has said this."""
        with self._news:
            self._news.wait_for(lambda: self._ended or any(text in line for line in self._lines), _SECONDS_MAX)
            if not any(text in line for line in self._lines):
                raise AssertionError(f"no {text!r} in\n{''.join(self._lines)}")

    def stop(self) -> None:
        """End it, and what it has started: a worker ends its executors."""
        self._process.terminate()
        self._process.wait(_SECONDS_MAX)
        self._reader.join(_SECONDS_MAX)
        assert self._process.stdout is not None
        self._process.stdout.close()


@cache
def shared_cluster() -> Cluster:
    """The cluster of all tests of a run, started when it is first asked for: that takes long."""
    directory = tempfile.mkdtemp(prefix="streamd-cluster-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    cluster = Cluster(Path(directory))
    atexit.register(cluster.stop)
    cluster.start()
    return cluster


class Cluster:
    """A master and two workers with one core each. `stop` it in any case."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[Process] = []
        self.url = f"spark://127.0.0.1:{free_port()}"

    def start(self) -> None:
        """Start all of them, and wait until they know each other."""
        port = self.url.rpartition(":")[2]
        web = ("--webui-port", str(free_port()))
        master = self._run("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", port, *web)
        master.wait_for("New state: ALIVE")
        size = ("--cores", "1", "--memory", "1g")
        workers = [
            self._run(
                "org.apache.spark.deploy.worker.Worker",
                # Spark never does a task a second time on the same host.
                *("--host", f"127.0.0.{number + 1}", *size, "--webui-port", str(free_port())),
                *("--work-dir", f"{self._directory}/work{number}"),
                self.url,
            )
            for number in range(2)
        ]
        for worker in workers:
            worker.wait_for("Successfully registered")

    def _run(self, *arguments: str) -> Process:
        process = Process(self._directory, *arguments)
        self._processes.append(process)
        return process

    def stop(self) -> None:
        """End all of them, the workers first."""
        while self._processes:
            self._processes.pop().stop()
