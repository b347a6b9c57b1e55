"""The compactor: a process of its own, since a busy Python thread beside the reactor costs it most of its speed.

``python -m streamd.store.packs.compactor DIRECTORY``, started by the daemon. It reads commands from standard input, one
a line: ``fold N`` (all journal files up to N), and answers on standard output with one JSON object a line:
``{"folded": N, ...}``, ``{"merged": [packs], "into": pack}``, ``{"adopted": pack}`` where a store of an earlier format
was brought over, or ``{"failed": "why", "full": for want of room}``. Between commands it merges packs. It ends with its
input.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sqlite3
import sys
import time
from contextlib import suppress
from typing import Final

from streamd.store.directory import COMPACTOR_LOCK, JOURNAL, PACKS, read_identity
from streamd.store.disk import Disk
from streamd.store.packs.catalog import CatalogFull
from streamd.store.packs.fold import Folder
from streamd.store.packs.opening import open_packs
from streamd.store.room import is_full

_NICE: Final = 10
_LOCK_SECONDS: Final = 10.0
_PR_SET_PDEATHSIG: Final = 1

# How often it looks for something to merge that there was no room for.
_LOOK_SECONDS: Final = 5.0


def main(directory: str) -> int:
    """Run until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the daemon's terminal sends it to all; the daemon decides
    _die_with_parent()
    with suppress(OSError):
        os.nice(_NICE)
    disk = Disk()
    end = time.monotonic() + _LOCK_SECONDS
    while (lock := disk.lock(os.path.join(directory, COMPACTOR_LOCK))) is None:
        if time.monotonic() > end:
            _say(failed="another compactor has this data directory", full=False)
            return 1
        time.sleep(0.01)
    try:
        store = read_identity(disk, directory)
        opened = open_packs(disk, directory, store, is_alone=False)
        folder = Folder(disk, os.path.join(directory, JOURNAL), os.path.join(directory, PACKS), store, opened)
        if opened.is_old:
            _say(adopted=folder.adopt())
        if leftovers := folder.leftovers():
            _say(merged=leftovers, into=None)
        _serve(folder)
        opened.catalog.close()
    except Exception as error:
        _say(failed=f"{type(error).__name__}: {error}", full=_is_full(error))
        return 1
    finally:
        lock.close()
    return 0


def _serve(folder: Folder) -> None:
    commands = _Commands()
    while True:
        # Folding goes first: it is what writers wait for.
        command = commands.next(wait=not folder.choose() and not folder.is_checkpoint_due)
        if command is None:
            return
        if command:
            word, number = command.split()
            assert word == "fold"
            done = 0
            while done < int(number):
                folded = folder.fold(folder.step(int(number)))
                _say(folded=folded.file, pack=folded.pack, bytes=folded.pack_bytes)
                done = folded.file
            continue
        if packs := folder.choose():
            into = folder.merge(packs)
            _say(merged=packs, into=into)
        elif folder.is_checkpoint_due:
            packs, into = folder.checkpoint()
            _say(merged=packs, into=into)


class _Commands:
    """Lines of standard input, with a look whether there is one."""

    def __init__(self) -> None:
        self._data = b""

    def next(self, *, wait: bool) -> str | None:
        """The latest command, which includes those before; "" where there is none yet; None at the end."""
        while True:
            ready, _, _ = select.select([0], [], [], 0 if b"\n" in self._data or not wait else _LOOK_SECONDS)
            if ready:
                data = os.read(0, 65536)
                if not data:
                    return None
                self._data += data
                continue
            if b"\n" in self._data:
                lines, _, self._data = self._data.rpartition(b"\n")
                return lines.decode().splitlines()[-1]
            return ""


def _is_full(error: Exception) -> bool:
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return isinstance(error, CatalogFull) or (isinstance(error, OSError) and is_full(error))


def _say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def _die_with_parent() -> None:
    """Have the kernel end this process when the daemon is gone, also by kill -9. Elsewhere the end of input does."""
    parent = os.getppid()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
