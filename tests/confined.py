"""Becomes another program under the restrictions of a systemd unit, as far as a process can put them on itself.

``python -m tests.confined UNIT COMMAND …``. Applied are ``SystemCallFilter=`` with its groups, as systemd-analyze names
their members, ``RestrictAddressFamilies=``, ``MemoryDenyWriteExecute=``, ``NoNewPrivileges=`` and an empty
``CapabilityBoundingSet=``. What takes a file system or a user of its own is for PID 1 alone.
"""

from __future__ import annotations

import ctypes
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
_REFUSE = 0x00050000 | 1  # EPERM
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


def _filter(calls: set[str], families: list[str]) -> None:
    """Refuse all system calls but these, and all sockets but those of these families."""
    seccomp: Any = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(c_uint32(_REFUSE)))
    for name in sorted(calls - {"socket"}):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # others are of other machines
            _check(seccomp.seccomp_rule_add_array(context, c_uint32(_ALLOW), number, 0, None))
    number = seccomp.seccomp_syscall_resolve_name(b"socket")
    for family in families:
        one = (_Comparison * 1)(_Comparison(0, _EQUAL, getattr(socket, family), 0))
        _check(seccomp.seccomp_rule_add_array(context, c_uint32(_ALLOW), number, 1, one))
    _check(seccomp.seccomp_load(context))


def _check(result: int) -> None:
    if result:
        raise OSError(-result, f"libseccomp: {os.strerror(-result)}")


if __name__ == "__main__":
    confine(Path(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
