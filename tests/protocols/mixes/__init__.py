"""The law of mixes: any requests, in one write or cut anywhere, are answered as if each had been sent alone.

Each protocol has a plain model: what a world of topics is like, and what one request does to it and is answered with.
Random requests are given to a real store and to the model, and the answers compared byte by byte. A failure names its
seed: ``STREAMD_MIX_SEED=N make test ARGS=tests.protocols.mixes`` repeats it alone, and ``STREAMD_MIX_SECONDS=600``
tries new ones for so long.
"""
