"""The commands that need Spark: ``streamctl archive`` and ``streamctl pipeline``.

`start` starts Spark quietly, and tells who has none how to come by it.
"""
