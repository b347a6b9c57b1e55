"""The tests of streamd, in the same places as what they test. `make test` runs them under trial."""

from __future__ import annotations

from hypothesis import settings

# What passes on a quiet machine passes on a busy one, and what passed today passes tomorrow: no time limit for an
# example, and the same examples each time.
settings.register_profile("streamd", deadline=None, derandomize=True, database=None)
settings.load_profile("streamd")
