"""SESP for the laws."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from streamd.connections.core import Core
from streamd.protocols.sesp import SespFactory
from tests.protocols.laws.description import LIMITS, Breach, Description, Exchange

_VOLATILE = re.compile(
    rb'"(created|version|uptime|connections|commits|buffered_bytes|refusals)": ("[^"]*"|[0-9.]+|{[^}]*})'
)
_DESCRIBED = (
    b'+{"messages": 2, "first_offset": 1, "next_offset": 3, "bytes": 23, "sealed": false, "created": ?, '
    b'"writers": 0, "groups": {}, "retention": null}\n'
)
_STATUS = (
    b'+{"version": ?, "uptime": ?, "connections": ?, "store": {"topics": 1, "commits": ?, "pending_bytes": 0, '
    b'"buffered_bytes": ?, "read_only": false}, "sync": "always", "refusals": ?, "slowed": 0}\n'
)


def _lines(*pairs: tuple[bytes, bytes]) -> list[Exchange]:
    return [Exchange(asked + b"\n", told + b"\n") for asked, told in pairs]


class Sesp(Description):
    """Lines."""

    name = "sesp"
    segment = "law"
    transcript = [
        *_lines(
            (b"#foo", b"+"),
            (b"#foo", b"-AlreadyExists"),
            (b"@bar", b"-NoSuchTopicExists"),
            (b">x", b"-NoTopicSelected"),
            (b"@foo", b"+"),
            (b"<", b"-None"),
            (b">hello world", b"+"),
            (b">", b"+"),
            (b">\xff", b"-InvalidData"),
            (b">gr\xc3\xbc\xc3\x9fe", b"+"),
            (b"<", b"+hello world"),
            (b"<", b"+"),
            (b"<", b"+gr\xc3\xbc\xc3\x9fe"),
            (b"<", b"-None"),
            (b"$-1", b"-ReadOffsetCanNotBeNegative"),
            (b"$1", b"+"),
            (b"#bar", b"+"),
            (b"?", b'+["foo", "bar"]'),
            (b"%1", b"+"),
            (b"=bar", b"+"),
            (b"!bar", b"+"),
            (b"!bar", b"-NoSuchTopicExists"),
            (b"<", b"+"),
            (b"$0", b"+"),
            (b"<", b"-OffsetTruncated"),
            (b"", b"-InvalidCommand"),
        ),
        Exchange(b"?foo\n", _DESCRIBED),
        Exchange(b"&\n", _STATUS),
        *_lines((b"nonsense", b"-InvalidCommand"), (b">last", b"+")),
    ]
    breaches = [Breach(b">" + b"x" * LIMITS.line_bytes_max + b"\n", b"-TooLong\n")]
    sizes = []
    record_bytes_max = LIMITS.line_bytes_max - 1
    too_large = b"-TooLong\n"
    begun = [b">", b"#half", b"\r", b"<"]

    @classmethod
    def factory(cls, core: Core) -> SespFactory:
        return SespFactory(core)

    @classmethod
    def unknown(cls) -> Iterable[tuple[bytes, bytes, bool]]:
        for byte in range(256):
            if byte not in b"#!@=?$%<>&^~\n":
                yield bytes((byte,)) + b"data\n", b"-InvalidCommand\n", True

    @classmethod
    def comparable(cls, told: bytes) -> bytes:
        return _VOLATILE.sub(rb'"\1": ?', told)

    def prepare(self) -> Exchange:
        return Exchange(b"#law\n", b"+\n")

    def open(self) -> Exchange:
        return Exchange(b"@law\n", b"+\n")

    def ask(self) -> Exchange:
        return Exchange(b"$0\n", b"+\n")

    def flood(self) -> Exchange:
        return self.write(b"")

    def write(self, record: bytes) -> Exchange:
        return Exchange(b">%b\n" % record, b"+\n")

    def fetch(self, records: Sequence[bytes]) -> Exchange:
        return Exchange(b"$0\n" + b"<\n" * len(records), b"+\n" + b"".join([b"+%b\n" % each for each in records]))

    def is_unread(self, records: Sequence[bytes], bad: int, told: bytes, closed: bool) -> bool:
        error = b"-IOError\n"
        good = told.replace(error, b"")
        errors = (len(told) - len(good)) // len(error)
        right = self.fetch(records[: len(records) - errors]).told
        return not closed and told == right + error * errors and records[bad] not in told


class SespOverTls(Sesp):
    """The same, encrypted: a transport with buffers of its own."""

    endpoint = "tls"


class SespOverUnix(Sesp):
    """The same, on a unix socket."""

    endpoint = "unix"
