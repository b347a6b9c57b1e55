"""What the page of the archive shows can be pasted: DuckDB, Polars, pandas and Spark see the same orders."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from twisted.internet.defer import Deferred

from tests.rigs.daemon import CHECKOUT
from tests.rigs.spark.archives.case import ArchiveCase
from tests.rigs.spark.session import spark


class PageTests(ArchiveCase):
    def test_recipes(self) -> Deferred[None]:
        """Each recipe gives what was published."""
        return self.do(self._recipes)

    def _recipes(self) -> None:
        self.uri = str(self.directory / "archive")
        text = (CHECKOUT / "docs" / "archive.md").read_text(encoding="utf-8")
        (schema,) = re.findall(r"--schema '(.*?)'", text)
        for number, (customer, amount) in enumerate((("a", 1.5), ("b", 2), ("a", 3))):
            self.publish("orders", f'{{"id": {number}, "customer": "{customer}", "amount": {amount}}}')
            self.archive("orders", schema=schema)
        text = text.replace("/srv/archive", self.uri).replace("127.0.0.1:12345", self.server())
        names: dict[str, Any] = {"spark": spark()}
        archive, duckdb, polars, pandas, table = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        exec(duckdb, names)
        self.assertEqual(sorted(names["by_customer"]), [("a", 2, Decimal("4.50")), ("b", 1, Decimal("2.00"))])
        exec(polars, names)
        self.assertEqual(sorted(names["by_customer"]), [("a", Decimal("4.50")), ("b", Decimal("2.00"))])
        exec(pandas, names)
        self.assertEqual(sorted(names["frame"]["offset"]), [1, 2])
        self.publish("orders", '{"id": 3, "customer": "c", "amount": 1}')
        exec(f"import streamd.spark\n{table}", names)
        self.assertEqual(names["orders"].where("customer = 'c'").count(), 1)
        self.assertIn("streamd.spark.archive(", archive)
