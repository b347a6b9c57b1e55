"""Streaming SQL from topics to topics, out of a TOML file: ``streamctl pipeline``.

`file` reads and checks the file, `build` makes Spark's queries of it, `run` runs them until they are stopped. `smq`
gives SQL the elements of Simple Message Queue's messages.
"""
