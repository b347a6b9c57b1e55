"""One target under Atheris: ``python -m fuzz.engine TARGET [libFuzzer option | corpus] ...``

A process for each target, since libFuzzer never comes back; `python -m fuzz` starts them.
"""

from __future__ import annotations

import sys
from zlib import crc32

# One of so many inputs is tried with an eye on memory.
_TRACED = 16

MISSING = 3
"""The exit status where Atheris is not installed."""


def main() -> None:
    """Instrument what is fuzzed, and hand over."""
    try:
        import atheris
    except ImportError as error:
        print(f"fuzz: {error}. Atheris is installed by 'make fuzz', where there is a wheel of it", file=sys.stderr)
        sys.exit(MISSING)
    # Before anything imports them: code that is loaded already can't tell which of its branches were taken.
    with atheris.instrument_imports(include=["streamd.wire", "streamd.store", "streamd.batch"]):
        from fuzz.targets import TARGETS
    name, *options = sys.argv[1:]
    check = TARGETS[name].check
    # By what is in it, so that an input is treated the same each time. Python's own tracing of memory loses some of it.
    atheris.Setup([sys.argv[0], *options], lambda data: check(data, crc32(data) % _TRACED == 0))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
