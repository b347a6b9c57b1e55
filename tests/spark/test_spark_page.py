"""What the page of Spark shows can be pasted: its first queries run, on other paths and ports."""

from __future__ import annotations

import re
from typing import Any

from twisted.internet.defer import Deferred

from tests.rigs.daemon import CHECKOUT
from tests.rigs.spark.session import SparkCase, spark


class PageTests(SparkCase):
    def paste(self, names: dict[str, Any], block: int) -> None:
        """Run a block of the page, with the names that those before it have made."""
        text = (CHECKOUT / "docs" / "spark.md").read_text(encoding="utf-8")
        code = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[block]
        for shown, here in (
            ('"streamd-data"', repr(str(self.daemon.data_dir))),
            ('"127.0.0.1:12345"', repr(f"127.0.0.1:{self.daemon.port('pravega')}")),
            ('"orders"', repr(str(self.directory / "orders")) if block == 2 else '"orders"'),
            ('"orders-checkpoint"', repr(str(self.directory / "checkpoint"))),
        ):
            code = code.replace(shown, here)
        exec(compile(code, "docs/spark.md", "exec"), names)

    def test_pasted(self) -> Deferred[None]:
        """A table, what came in the last minutes, and a stream to files."""
        return self.do(self._pasted)

    def _pasted(self) -> None:
        spark()
        self.publish("greetings", "hello", "world")
        self.publish("orders", *map(str, range(10)))
        names: dict[str, Any] = {}
        self.paste(names, 0)
        self.assertEqual(names["greetings"].count(), 2)
        self.paste(names, 1)
        self.assertEqual(names["counted"].count(), 10)
        self.paste(names, 2)
        try:
            names["query"].processAllAvailable()
        finally:
            names["query"].stop()
        written = spark().read.parquet(str(self.directory / "orders")).orderBy("timestamp").collect()
        self.assertEqual(sorted(row.text for row in written), list(map(str, range(10))))
