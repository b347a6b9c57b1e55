"""The records of a segment as a person can read them: as text where they are text, else as a hex dump."""

from __future__ import annotations

import unicodedata
from typing import Any, Final

from streamd.batch import Buffer
from streamd.store import RecordsTruncated, Run, Segment, Store

RECORDS_SHOWN: Final = 20
TEXT_BYTES_SHOWN: Final = 1000
HEX_BYTES_SHOWN: Final = 160
"""Ten lines of a hex dump."""

# A segment is read so far back from its end: what a glance is worth. One record is read whole, however large it is.
_LOOK_BYTES: Final = 64 << 10

# Reads of one glance: the first may hit one large record, and others follow it.
_READS_MAX: Final = 4

_HEX_LINE_BYTES: Final = 16


async def latest(store: Store, segment: Segment) -> list[dict[str, Any]]:
    """The last records of a segment, as many as a page shows."""
    runs: list[Run] = []
    offset = max(segment.first_offset, segment.offset - _LOOK_BYTES)
    try:
        piece = await store.read_at(segment, offset, bytes_max=_LOOK_BYTES)
        for _ in range(_READS_MAX):
            runs += piece
            end = runs[-1].number + runs[-1].batch.count if piece else segment.number
            if end >= segment.number:
                break
            piece = await store.read(segment, end, bytes_max=_LOOK_BYTES)
    except RecordsTruncated:
        pass  # just now: the next glance begins further on
    return shown(runs, RECORDS_SHOWN)


async def following(store: Store, segment: Segment, number: int) -> list[dict[str, Any]]:
    """The records from a number on, as many as a page shows; from the first retained one where that number is gone."""
    number = max(number, segment.first_number)
    try:
        runs = await store.read(segment, number, bytes_max=_LOOK_BYTES, records_max=RECORDS_SHOWN)
    except RecordsTruncated:
        return []  # as above
    return shown(runs, RECORDS_SHOWN)


def shown(runs: list[Run], count: int) -> list[dict[str, Any]]:
    """The last so many records of these runs, ready to be shown."""
    rows: list[dict[str, Any]] = []
    for run in reversed(runs):
        left = count - len(rows)
        if left <= 0:
            break
        first = max(run.batch.count - left, 0)
        records = run.batch.part(first, run.batch.count).records()
        rows += [
            {"number": run.number + at, "time": run.timestamp / 1e6, **show(record)}
            for at, record in reversed(list(enumerate(records, first)))
        ]
    return rows[::-1]


def show(record: Buffer) -> dict[str, Any]:
    """A record as text or as a hex dump; `cut` where that is not all of it."""
    size = len(record)
    text = _as_text(bytes(record[:TEXT_BYTES_SHOWN]), whole=size <= TEXT_BYTES_SHOWN)
    if text is not None:
        return {"bytes": size, "kind": "text", "shown": text, "cut": size > TEXT_BYTES_SHOWN}
    return {
        "bytes": size,
        "kind": "hex",
        "shown": _hex_dump(bytes(record[:HEX_BYTES_SHOWN])),
        "cut": size > HEX_BYTES_SHOWN,
    }


def _as_text(data: bytes, *, whole: bool) -> str | None:
    """The record as text, with invisible characters made visible; None where it is not text."""
    for end in range(len(data), max(len(data) - 4, -1) if not whole else len(data) - 1, -1):
        # Where it is cut, the cut may be in the middle of a character.
        try:
            text = data[:end].decode("utf-8")
        except UnicodeDecodeError:
            continue
        controls = sum(unicodedata.category(char) == "Cc" and char not in "\t\r\n" for char in text)
        if controls * 20 > len(text):
            return None  # bytes that happen to be valid
        return "".join(map(_visible, text))
    return None


def _visible(char: str) -> str:
    """A character as it can be shown: one that moves, hides or reverses others is shown by its number."""
    if char in "\t\n":
        return char
    category = unicodedata.category(char)
    if category in ("Cc", "Cf", "Co", "Cn", "Zl", "Zp"):
        return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{{{ord(char):x}}}"
    return char


def _hex_dump(data: bytes) -> str:
    """Lines of offset, bytes, and the ASCII characters among them."""
    lines = []
    for begin in range(0, len(data), _HEX_LINE_BYTES):
        line = data[begin : begin + _HEX_LINE_BYTES]
        printable = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in line)
        lines.append(f"{begin:04x}  {line.hex(' '):<{3 * _HEX_LINE_BYTES - 1}}  {printable}")
    return "\n".join(lines)
