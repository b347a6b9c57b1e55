"""An archive and what has come since as one table: `streamd.spark.table`.

`read` makes the table, of archived `files` and of the live `tail`.
"""
