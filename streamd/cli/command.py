"""What all commands share: exit statuses, errors, how data is printed, values of options."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
from typing import Any, Final

FAILED: Final = 1
"""What was asked for could not be done."""
USAGE: Final = 2
"""The command line, or a file that it names, can't be used. Also what argparse exits with."""
UNAVAILABLE: Final = 69
"""Something is missing that the command needs: Spark, a Java, the daemon."""
INTERRUPTED: Final = 130
"""Ctrl-C."""

SPARK: Final = "pip install 'streamd[spark]', or Debian's package streamd-spark"
"""What brings Spark and pyarrow."""

SERVER: Final = "127.0.0.1:12345"
"""Where a daemon that was told nothing else serves Pravega, and with it tools."""

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
    """What is wrong, and what to do next, in one line."""

    def __init__(self, text: str, status: int = FAILED) -> None:
        super().__init__(text)
        self.status = status


def explained(error: OSError) -> str:
    """What the system has against it, and what to do next."""
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return f"{where}{error.strerror or error}{_NEXT.get(error.errno or 0, '')}"


def print_json(value: Any) -> None:
    """Data for another program: one JSON document."""
    print(json.dumps(value, ensure_ascii=False))


def size(text: str) -> int:
    """A number of bytes on the command line: 67108864, 64m."""
    found = _SIZE.fullmatch(text)
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes, such as 67108864 or 64m")
    return int(found[1]) * _UNITS[found[2].lower()]


def check_server(server: str) -> None:
    """Whether a daemon is there. Spark takes seconds to start: what would be in vain is told before."""
    from streamd.client import ClientError, StorageClient

    try:
        with StorageClient(server):
            pass
    except ValueError as error:
        raise CommandError(f"--server: {error}", USAGE)
    except ClientError as error:
        raise CommandError(f"no daemon at {server}, where its Pravega service should be: {error}", UNAVAILABLE)
