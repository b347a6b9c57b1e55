"""Topics as Parquet files, for good: `streamd.spark.archive` and ``streamctl archive``.

`run` archives what has come since the last time; `plan` cuts it into files, `write` writes one in a task, `manifest`
says which files count. A place is reached through Arrow (`arrow`) or, where that can't, through Spark (`spark`,
`hadoop`); `location` knows which, and `files` is what both offer. `table` shows an archive and the live records behind
it as one table.
"""
