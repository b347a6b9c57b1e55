"""Orders above 1000, as they come, from the topic orders to the topic orders.big."""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

SERVER = os.environ.get("STREAMD_SERVER", "127.0.0.1:12345")
SCHEMA = "order long, customer string, amount decimal(12,2)"

spark = SparkSession.active()

dp.create_sink("big", "streamd", {"server": SERVER, "topic": "orders.big"})


@dp.append_flow(target="big")  # type: ignore[untyped-decorator, unused-ignore]
def big_orders() -> DataFrame:
    """Rows for the sink: a column value, here the order's JSON as it came."""
    orders = spark.readStream.format("streamd").option("server", SERVER).option("topic", "orders").load()
    return orders.selectExpr("CAST(value AS string) AS value").where(f"from_json(value, '{SCHEMA}').amount > 1000")
