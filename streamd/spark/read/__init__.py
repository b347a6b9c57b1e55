"""Topics as tables and streams: what ``spark.read`` and ``spark.readStream`` do with ``format("streamd")``.

`source` is what Spark calls, for tables, and `streaming` for streams. `places` turns words and times into record
numbers, `positions` are how far a stream has come, `plan` cuts ranges into partitions, `triggers` bound a batch.
`records` reads a partition in a task, from the store's files (`path`) or from a daemon (`server`); `columns` makes
Arrow batches of it, and `filters` tells which of Spark's filters choose records. Sink and archives read through
`places`, `plan` and `records`.
"""
