"""A daemon and pipelines on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

from streamd.spark.pipeline.file import load
from streamd.spark.pipeline.run import Progress, Running
from tests.rigs.daemon import CHECKOUT
from tests.rigs.sesp_client import Sesp
from tests.rigs.spark.session import SparkCase, spark

EXAMPLES = CHECKOUT / "etc" / "pipelines"


class PipelineCase(SparkCase):
    """A daemon, and pipelines on it."""

    def example(self, name: str) -> Path:
        """An example, as it is but for where it finds the daemon and puts its checkpoint."""
        text = (EXAMPLES / f"{name}.toml").read_text(encoding="utf-8")
        self.assertIn('"127.0.0.1:12345"', text)
        text = text.replace("127.0.0.1:12345", f"127.0.0.1:{self.daemon.port('pravega')}")
        path = self.directory / f"{name}.toml"
        path.write_text(text.replace('checkpoint = "', f'checkpoint = "{self.directory}/'))
        return path

    def telnet(self, topic: str, *messages: object) -> None:
        """Publish as somebody does who types."""
        lines = [
            f"#{topic}",
            f"@{topic}",
            *(f">{each if isinstance(each, str) else json.dumps(each)}" for each in messages),
        ]
        with self.daemon.connect() as connection, connection.makefile("rwb") as stream:
            stream.write("".join(f"{line}\r\n" for line in lines).encode())
            stream.flush()
            replies = [stream.readline() for _ in lines]
        self.assertIn(replies[0], (b"+\n", b"-AlreadyExists\n"))
        self.assertEqual(replies[1:], [b"+\n"] * (len(lines) - 1))

    def topic(self, name: str) -> list[str]:
        """All messages of a topic."""
        with Sesp(self.daemon) as sesp:
            return [data.decode() for data in sesp.read_while_it_goes(name).values()]

    def objects(self, name: str) -> list[Any]:
        return [json.loads(each) for each in self.topic(name)]

    def once(self, file: Path) -> list[Progress]:
        """Run a pipeline over what is there now."""
        pipeline = load(str(file))
        with configured(pipeline.spark):
            running = Running(spark(), pipeline)
            try:
                running.start(once=True)
                return list(running.follow(Event()))
            finally:
                running.stop()


@contextmanager
def configured(settings: Any) -> Iterator[None]:
    """Settings of the session that all tests share, for a while."""
    before = {key: spark().conf.get(key) or "" for key in settings}
    for key, value in settings.items():
        spark().conf.set(key, value)
    yield
    for key, value in before.items():
        spark().conf.set(key, value)


GOOD = """\
[pipeline]
name = "p"
checkpoint = "c"

[[source]]
name = "logs"
topic = "logs"
format = "json"
schema = "a string"

[[view]]
name = "v"
sql = '''
SELECT a
FROM logs
'''

[[sink]]
view = "v"
topic = "out"
"""
