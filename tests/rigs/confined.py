"""Becomes another program under the restrictions of a systemd unit, as far as a process can put them on itself.

``python -m tests.rigs.confined UNIT COMMAND …``. Applied are ``SystemCallFilter=`` with its groups, as systemd-analyze
names their members, ``RestrictAddressFamilies=``, ``MemoryDenyWriteExecute=``, ``NoNewPrivileges=`` and an empty
``CapabilityBoundingSet=``. What takes a file system or a user of its own is for PID 1 alone.

``python -m tests.rigs.confined --failing CALL COMMAND …`` lets that one system call fail as it does on a broken disk.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import socket
import subprocess
import sys
from ctypes import c_int, c_uint, c_uint32, c_uint64
from pathlib import Path
from typing import Any

_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_SET_MDWE = 23, 24, 38, 65
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000  # and the error it gets
_EQUAL = 4


class _Comparison(ctypes.Structure):
    _fields_ = [("argument", c_uint), ("operator", c_int), ("value", c_uint64), ("other", c_uint64)]


def systemd_analyze(*arguments: str) -> str:
    """What systemd-analyze prints. It has to be there: a test that passes without it would prove nothing."""
    program = shutil.which("systemd-analyze")
    if program is None:
        raise AssertionError("systemd-analyze is not installed: apt-get install systemd")
    ended = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    if ended.returncode:
        raise AssertionError(f"systemd-analyze {' '.join(arguments)}: {ended.stdout}{ended.stderr}")
    return ended.stdout


def settings(unit: Path) -> dict[str, list[str]]:
    """The settings of a unit, each with its values in their order; sections don't matter."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text(encoding="utf-8").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


def system_calls(filters: list[str]) -> set[str]:
    """The names that a list of ``SystemCallFilter=`` lets through: groups are added, and taken away behind a ~."""
    groups: dict[str, list[str]] = {}
    for line in systemd_analyze("syscall-filter").splitlines():
        if line.startswith("@"):
            members = groups.setdefault(line.split()[0], [])
        elif line.startswith("    ") and not line.strip().startswith("#"):
            members.append(line.strip())

    def members_of(name: str) -> set[str]:
        return set().union(*map(members_of, groups[name])) if name.startswith("@") else {name}

    allowed: set[str] = members_of("@default")
    for each in filters:
        named = set().union(*map(members_of, each.removeprefix("~").split()))
        allowed = allowed - named if each.startswith("~") else allowed | named
    return allowed


def confine(unit: Path) -> None:
    """Put the restrictions of the unit on this process, for good."""
    wanted = settings(unit)
    libc = ctypes.CDLL(None, use_errno=True)

    def prctl(option: int, argument: int) -> None:
        if libc.prctl(option, argument, 0, 0, 0):
            raise OSError(ctypes.get_errno(), f"prctl {option}: {os.strerror(ctypes.get_errno())}")

    if wanted.get("CapabilityBoundingSet") == [""] and os.geteuid() == 0:
        for capability in range(64):
            if libc.prctl(_PR_CAPBSET_READ, capability, 0, 0, 0) == 1:
                prctl(_PR_CAPBSET_DROP, capability)
    if wanted.get("MemoryDenyWriteExecute") == ["yes"]:
        prctl(_PR_SET_MDWE, 1)
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _filter(system_calls(wanted["SystemCallFilter"]), wanted["RestrictAddressFamilies"][0].split())


def fail(call: str, descriptor: int | None = None) -> None:
    """Let one system call fail with an input/output error; for this descriptor alone, where one is given."""
    seccomp = _Filter(_ALLOW)
    only = () if descriptor is None else (_Comparison(0, _EQUAL, descriptor, 0),)
    seccomp.add(_REFUSE | errno.EIO, call, *only)
    seccomp.load()


def _filter(calls: set[str], families: list[str]) -> None:
    """Refuse all system calls but these, and all sockets but those of these families."""
    seccomp = _Filter(_REFUSE | errno.EPERM)
    for name in sorted(calls - {"socket"}):
        seccomp.add(_ALLOW, name)
    for family in families:
        seccomp.add(_ALLOW, "socket", _Comparison(0, _EQUAL, getattr(socket, family), 0))
    seccomp.load()


class _Filter:
    """A filter of libseccomp: what happens to system calls, and to those that have a rule of their own."""

    def __init__(self, default: int) -> None:
        self._library: Any = ctypes.CDLL("libseccomp.so.2")
        self._library.seccomp_init.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._library.seccomp_init(c_uint32(default)))

    def add(self, action: int, name: str, *comparisons: _Comparison) -> None:
        """A rule for one call, where its arguments compare. Calls that this machine does not have need none."""
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            array = (_Comparison * len(comparisons))(*comparisons)
            self._check(
                self._library.seccomp_rule_add_array(self._context, c_uint32(action), number, len(array), array)
            )

    def load(self) -> None:
        """From here on it holds, for this process and all that it starts."""
        self._check(self._library.seccomp_load(self._context))

    def _check(self, result: int) -> None:
        if result:
            raise OSError(-result, f"libseccomp: {os.strerror(-result)}")


def main(arguments: list[str]) -> None:
    """Restrict this process, and become the command."""
    if arguments[0] == "--failing":
        fail(arguments[1])
        del arguments[0]
    else:
        confine(Path(arguments[0]))
    os.execvp(arguments[1], arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
