"""A server that speaks S3 as Amazon's does, in a process of its own: moto's."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from pyarrow.fs import S3FileSystem

from tests.rigs.drivers.cluster import free_port

KEYS = {"access_key": "somebody", "secret_key": "a secret of theirs"}
_SECONDS_MAX = 60.0

_SERVE = "import sys; from moto.server import main; main(sys.argv[1:])"


class S3Server:
    """Starts when it is made. `stop` it in any case."""

    def __init__(self, log: Path) -> None:
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        self.log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE, "-H", "127.0.0.1", "-p", str(port)], stdout=file, stderr=file
            )

    def system(self, bucket: str) -> S3FileSystem:
        """What Arrow sees of it, with a bucket that is made where it is not there. Waits until it answers."""
        system = S3FileSystem(**KEYS, endpoint_override=self.endpoint, region="us-east-1", allow_bucket_creation=True)
        deadline = time.monotonic() + _SECONDS_MAX
        while True:
            try:
                system.create_dir(bucket)
                return system
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"no S3: {self.log.read_text()}") from None

    def settings(self, bucket: str) -> dict[str, str]:
        """What Spark has to know, as settings of Hadoop, for this bucket alone."""
        found = {
            "endpoint": self.endpoint,
            "endpoint.region": "us-east-1",
            "access.key": KEYS["access_key"],
            "secret.key": KEYS["secret_key"],
            "path.style.access": "true",
        }
        return {f"fs.s3a.bucket.{bucket}.{key}": value for key, value in found.items()}

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(_SECONDS_MAX)
