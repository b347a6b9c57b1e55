"""Rows to topics, each exactly once: what ``df.write`` and ``df.writeStream`` do with ``format("streamd")``.

`writer` is what Spark calls. Tasks put their rows, which `rows` makes records of, into hidden segments (`hidden`), and
the driver publishes those of a batch in one step, with its number as the ack level of the query: a batch that comes
again is known by it. `options` checks what the user wants.
"""
