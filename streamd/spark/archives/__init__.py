"""Topics as Delta tables, for good: `streamd.spark.archive` and ``streamctl archive``.

`run` archives what has come since the last time: `plan` cuts it into files, `write` writes them in tasks as `parquet`,
with `typed` columns where a schema is given, and `delta` commits them. `location` is where they are; `adopt` takes over
archives of the layout before Delta. `table` shows a Delta table (`history`) and the live records behind it (`tail`).
"""
