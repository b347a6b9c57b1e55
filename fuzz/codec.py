"""The laws of a codec, for any bytes in any pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fuzz.law import bounded_memory, cut, hold
from streamd.wire import Codec


@dataclass(frozen=True)
class CodecLaws:
    """One codec, and how its requests are taken apart and put into bytes again."""

    make: Callable[[], Codec]
    singles: Callable[[Iterable[Any]], list[Any]]
    """The same requests with no two in one: however they were cut or joined, these are the same."""
    encode: Callable[[Any], bytes | None]
    """The bytes of a single request; None where they are not kept."""
    replies: Callable[[Sequence[bytes]], None] | None = None
    """Checks that what is sent for these records tells them."""
    greeting: bytes = b""
    """What a connection begins with, so that nothing in the next bytes can be taken for its beginning."""

    def check(self, data: bytes, is_traced: bool = True) -> None:
        """Decode the input whole and in pieces. LawBroken, or whatever else a codec must not raise, comes out."""
        whole, pieces = cut(data)
        at_once = self._decode([whole])
        with bounded_memory(len(whole), is_traced):
            in_pieces = self._decode(pieces)
        hold(at_once == in_pieces, f"in pieces it is {in_pieces}, at once {at_once}")
        self._check_encoded(at_once[0])
        if self.replies is not None:
            self.replies(pieces)

    def _decode(self, pieces: Iterable[bytes]) -> tuple[list[Any], str | None, int]:
        codec = self.make()
        found: list[Any] = []
        given = 0
        for piece in pieces:
            given += len(piece)
            # A WireError here would be one that nobody sees coming: it belongs into `error`.
            found += codec.receive(piece)
            if codec.error is not None:
                hold(codec.buffered == 0, f"{codec.buffered} bytes are kept for a peer that broke the protocol")
                return self.singles(found), str(codec.error), 0
            hold(codec.buffered <= given, f"{codec.buffered} bytes are kept of {given}")
        return self.singles(found), None, codec.buffered

    def _check_encoded(self, found: list[Any]) -> None:
        known = [(request, data) for request in found if (data := self.encode(request)) is not None]
        greeted, _, _ = self._decode([self.greeting])
        again = self._decode([self.greeting, b"".join([data for _, data in known])])
        wanted = greeted + [request for request, _ in known]
        hold(again == (wanted, None, 0), f"encoded and decoded again it is {again}, not {wanted}")
