"""What all commands share: exit statuses, errors, printing of data, values of options."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
from typing import Any, Final

FAILED: Final = 1
"""The exit status where the request could not be carried out."""
USAGE: Final = 2
"""The exit status where the command line, or a file that it names, can't be used. Also that of argparse."""
UNAVAILABLE: Final = 69
"""The exit status where something is missing that the command needs: Spark, a Java, the daemon."""
INTERRUPTED: Final = 130
"""The exit status after Ctrl-C."""

SPARK: Final = "in a checkout of streamd, pip install '.[spark]'; or Debian's package streamd-spark"
"""The packages that bring Spark and pyarrow."""

PARQUET: Final = "in a checkout of streamd, pip install '.[parquet]'"
"""What brings pyarrow alone."""

SERVER: Final = "127.0.0.1:12345"
"""The default address of a daemon's Pravega service, which serves tools too."""

_NEXT: Final = {
    errno.EACCES: ": become the user whose file it is, or root",
    errno.EPERM: ": become the user whose file it is, or root",
    errno.ENOSPC: ": make room there, and do it again",
    errno.EDQUOT: ": make room there, and do it again",
    errno.EROFS: ": give a place that can be written to",
    errno.EIO: ": the disk fails, see dmesg",
}

_SIZE: Final = re.compile(r"([0-9]{1,12})([kmg]?)", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class CommandError(Exception):
    """An error of a command: what is wrong, and what to do next, in one line."""

    def __init__(self, text: str, status: int = FAILED) -> None:
        super().__init__(text)
        self.status = status


def explained(error: OSError) -> str:
    """An error of the operating system in words, with what to do next."""
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return f"{where}{error.strerror or error}{_NEXT.get(error.errno or 0, '')}"


def print_json(value: Any) -> None:
    """Print data for another program: one JSON document."""
    print(json.dumps(value, ensure_ascii=False))


def size(text: str) -> int:
    """Parse a number of bytes on the command line: 67108864, 64m."""
    match = _SIZE.fullmatch(text)
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes, such as 67108864 or 64m")
    return int(match[1]) * _UNITS[match[2].lower()]


def check_server(server: str) -> None:
    """Raise CommandError where no daemon answers. Spark takes seconds to start: this is known before."""
    from streamd.client import ClientError, StorageClient

    try:
        with StorageClient(server):
            pass
    except ValueError as error:
        raise CommandError(f"--server: {error}", USAGE)
    except ClientError as error:
        raise CommandError(f"no daemon at {server}, where its Pravega service should be: {error}", UNAVAILABLE)
