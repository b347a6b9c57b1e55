"""Messages in and out: ``streamctl publish``, ``tail`` and ``export``.

`source` reads them from a daemon or from a store's files, `records` formats them.
"""
