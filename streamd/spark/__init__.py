"""streamd in Spark: ``format("streamd")`` reads topics as tables and as streams.

This package runs in Spark's processes, and the daemon never imports it. It needs ``pip install 'streamd[spark]'``.

    import streamd.spark

    spark = streamd.spark.session("first look")
    spark.read.format("streamd").option("path", "/var/lib/streamd").option("topic", "greetings").load().show()

The way of the data, one module each: `options` checks what the user wants, `storage` opens the files or the daemon,
`places` turns words and times into record numbers, `plan` cuts these into partitions, `columns` makes Arrow batches of
what is read. `source` is what Spark calls.
"""

from __future__ import annotations

from streamd.spark.start import session

__all__ = ["session"]
