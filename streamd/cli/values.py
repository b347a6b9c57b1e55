"""Parsers of numbers on the command line; that of sizes is in `streamd.cli.command`."""

from __future__ import annotations

import argparse
from typing import Final

_SECONDS_LEAST: Final = 0.05
_SECONDS_MAX: Final = 3600.0


def whole(text: str) -> int:
    """Parse a whole number: 0, 1, 2 …"""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number: 0, 1, 2 and so on")
    return int(text)


def positive(text: str) -> int:
    """Parse a positive number: 1, 2, 3 …"""
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def seconds(text: str) -> float:
    """Parse a time in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not _SECONDS_LEAST <= value <= _SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from {_SECONDS_LEAST} to {_SECONDS_MAX:g}")
    return value
