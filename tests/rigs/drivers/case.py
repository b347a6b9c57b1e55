"""A test case that starts drivers and commands in processes of their own, and waits for what they say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, CompletedProcess, Popen

from tests.rigs.daemon import CHECKOUT
from tests.rigs.spark.java import OPTIONS
from tests.rigs.spark.session import SparkCase


def environment() -> dict[str, str]:
    """What such a process is started with: this checkout, and a Java that starts fast."""
    return {**os.environ, "PYTHONPATH": str(CHECKOUT), "SPARK_SUBMIT_OPTS": OPTIONS}


class DriverCase(SparkCase):
    """A daemon, and processes that use it."""

    def server(self) -> str:
        """Where the daemon has its tools served."""
        return f"127.0.0.1:{self.daemon.port('pravega')}"

    def ended(self, *command: str) -> CompletedProcess[str]:
        """A module that is run to its end."""
        return subprocess.run(
            [sys.executable, "-m", *command],
            cwd=self.directory,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=self.timeout,
            check=False,
        )

    def said(self, *command: str) -> str:
        """What a module says that ends well."""
        ended = self.ended(*command)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout

    @contextmanager
    def running(self, *command: str) -> Iterator[Popen[str]]:
        """A module that runs, as the leader of all processes that it starts."""
        with Popen(
            [sys.executable, "-m", *command],
            cwd=self.directory,
            env=environment(),
            stdout=PIPE,
            stderr=PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def wait_for_rows(self, process: Popen[str], rows: dict[str, int]) -> None:
        """Until a pipeline has told of so many rows for each sink."""
        assert process.stdout is not None
        seen = dict.fromkeys(rows, 0)
        while seen != rows:
            line = process.stdout.readline()
            self.assertTrue(line, f"it ended: {seen}")
            told = json.loads(line)
            seen[told["sink"]] += told["rows"]
