"""Simple Message Queue for clients: push typed messages, pull them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final, cast

from streamd.client.errors import Refused
from streamd.client.session import OrderedSession, Steps, chunks
from streamd.client.values import Message, Type, Value
from streamd.wire import WireError
from streamd.wire.smq_client import Outcome, Response, SmqReplies, pull_frames, push_frames

# Pulls that are on their way at once.
_PULLS_AT_ONCE: Final = 4096

# By number: quicker than to ask the enumeration.
_TYPES: Final = tuple(Type)


class SmqSession(OrderedSession[Response]):
    """One connection to one queue."""

    def __init__(self, reply_bytes_max: int) -> None:
        super().__init__(SmqReplies(reply_bytes_max))

    def push(self, messages: Iterable[Value | Message]) -> Steps[None]:
        """Push messages, in order; done when all of them are on disk. See `streamd.client.values` for their types.

        They are sent without waiting for each other. Where the daemon refuses some, Refused tells how many they were.
        """
        refused = sum((yield from self._ask_many(_pushes(messages), _count_refused)))
        if refused:
            raise Refused("refused", f"the queue refused {refused} messages", refused)

    def pull(self) -> Steps[Message | None]:
        """The next message, which is gone from the queue then; None where the queue is empty."""
        found = yield from self._ask(pull_frames(1), 1, _pulled)
        return found[0] if found else None

    def pull_many(self, count: int) -> Steps[list[Message]]:
        """Up to so many messages, fewer where the queue has no more.

        All of them are this client's when it returns: what it does not see to before it ends is lost. Where that
        matters, pull one at a time.
        """
        found: list[Message] = []
        while len(found) < count:
            wanted = min(count - len(found), _PULLS_AT_ONCE)
            more = yield from self._ask(pull_frames(wanted), wanted, _pulled)
            found += more
            if len(more) < wanted:
                break
        return found


def _pushes(values: Iterable[Value | Message]) -> Iterator[tuple[bytes, int]]:
    """Runs of one type as they are sent, and how many messages that is."""
    for kind, run in _runs(_several(values)):
        for records in chunks(run):
            yield push_frames(kind, records), len(records)


def _runs(values: Iterable[Value | Message]) -> Iterator[tuple[Type, Iterator[bytes]]]:
    """Neighbours of one type, as the bytes of their elements."""
    for python, run in groupby(values, key=type):
        if python is bytes:
            # They are what they are: no need to make messages of them.
            yield Type.U8, cast(Iterator[bytes], run)
        else:
            for kind, same in groupby(map(Message.of, run), key=attrgetter("type")):
                yield kind, map(attrgetter("data"), same)


def _several(values: Iterable[Value | Message]) -> Iterable[Value | Message]:
    if isinstance(values, (bytes, bytearray, memoryview, str, Message)):
        raise TypeError("expected several messages, not one: put it into a list")
    return values


def _count_refused(responses: list[Response]) -> int:
    found = [response.outcome for response in responses]
    refused = found.count(Outcome.REFUSED)
    if refused + found.count(Outcome.PUSHED) != len(found):
        raise WireError("a push was answered with a message")
    return refused


def _pulled(responses: list[Response]) -> list[Message]:
    found = [Message(_TYPES[each.kind], each.data) for each in responses if each.outcome is Outcome.PULLED]
    if len(found) < len(responses):
        outcomes = {each.outcome for each in responses}
        if Outcome.REFUSED in outcomes:
            raise Refused("refused", "the queue refused a pull")
        if Outcome.PUSHED in outcomes:
            raise WireError("a pull was answered without a message")
    return found
