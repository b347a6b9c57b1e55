"""What a segment, a group and an attribute may be called."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from streamd.store.errors import BadName

NAME_BYTES_MAX: Final = 255
DELAYED: Final = "delayed/"
"""How the names of hidden segments begin that hold delayed messages."""

KEY_BYTES_MAX: Final = 255
VALUE_BYTES_MAX: Final = 4096

# FastStreamDB's streams are numbers. Under its prefix nothing else can stand, so that each has one name.
NUMBERED: Final = "faststream/"
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def check_name(name: str) -> bytes:
    """The name as bytes; BadName says what is wrong with it."""
    try:
        data = name.encode()
    except UnicodeEncodeError:
        raise BadName("a name must be valid Unicode") from None
    if not 1 <= len(data) <= NAME_BYTES_MAX:
        raise BadName(f"a name has 1 to {NAME_BYTES_MAX} bytes, not {len(data)}")
    if not name.isprintable() and any(unicodedata.category(each) == "Cc" for each in name):
        raise BadName("a name has no control characters")
    if name.startswith(NUMBERED):
        number = name[len(NUMBERED) :]
        if not _NUMBER.fullmatch(number) or int(number) >= 1 << 32:
            raise BadName(f"behind {NUMBERED!r} stands a stream's number in plain decimal, nothing else")
    return data
