"""Simple Message Queue: push typed messages, pull them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final, cast

from streamd.client.core.commands import ConnectedCommands, command
from streamd.client.core.session import OrderedSession, chunks
from streamd.client.errors import Refused
from streamd.client.values import Message, Type, Value
from streamd.wire import WireError
from streamd.wire.client.smq import Outcome, Response, SmqReplies, pull_frames, push_frames

# Pulls that are on their way at once.
_PULLS_AT_ONCE: Final = 4096

# By number: quicker than to ask the enumeration.
_TYPES: Final = tuple(Type)


class SmqCommands(ConnectedCommands[OrderedSession[Response]]):
    """Pushes to one queue and pulls from it."""

    def _make_session(self) -> OrderedSession[Response]:
        return OrderedSession(SmqReplies(self._target.reply_bytes_max), self._target)

    @command
    async def push(self, messages: Iterable[Value | Message]) -> None:
        """Push messages, in order; done when all of them are on disk. See `streamd.client.values` for their types.

        Messages are sent without waiting for each other. Where the daemon refuses some, Refused has how many they were.
        """
        refused = sum(await self._session.ask_many(_pushes(messages), _count_refused))
        if refused:
            raise Refused("refused", f"the queue refused {refused} messages", refused)

    @command
    async def pull(self) -> Message | None:
        """Take the next message from the queue and return it; None where the queue is empty."""
        messages = await self._session.ask(pull_frames(1), 1, _pulled)
        return messages[0] if messages else None

    @command
    async def pull_many(self, count: int) -> list[Message]:
        """Take up to so many messages from the queue, fewer where it has no more.

        The queue has forgotten all of them when this returns: a message that the client does not deal with before it
        ends is lost. Where that matters, pull one at a time.
        """
        messages: list[Message] = []
        while len(messages) < count:
            wanted = min(count - len(messages), _PULLS_AT_ONCE)
            more = await self._session.ask(pull_frames(wanted), wanted, _pulled)
            messages += more
            if len(more) < wanted:
                break
        return messages


def _pushes(values: Iterable[Value | Message]) -> Iterator[tuple[bytes, int]]:
    """Yield runs of one type as they are sent, and how many messages each is."""
    for kind, run in _runs(_several(values)):
        for records in chunks(run):
            yield push_frames(kind, records), len(records)


def _runs(values: Iterable[Value | Message]) -> Iterator[tuple[Type, Iterator[bytes]]]:
    """Yield neighbours of one type, as the bytes of their elements."""
    for python, run in groupby(values, key=type):
        if python is bytes:
            # Bytes are sent as they are: no need to make messages of them.
            yield Type.U8, cast(Iterator[bytes], run)
        else:
            for kind, same in groupby(map(Message.of, run), key=attrgetter("type")):
                yield kind, map(attrgetter("data"), same)


def _several(values: Iterable[Value | Message]) -> Iterable[Value | Message]:
    if isinstance(values, (bytes, bytearray, memoryview, str, Message)):
        raise TypeError("expected several messages, not one: put it into a list")
    return values


def _count_refused(responses: list[Response]) -> int:
    outcomes = [response.outcome for response in responses]
    refused = outcomes.count(Outcome.REFUSED)
    if refused + outcomes.count(Outcome.PUSHED) != len(outcomes):
        raise WireError("a push was answered with a message")
    return refused


def _pulled(responses: list[Response]) -> list[Message]:
    messages = [
        Message(_TYPES[response.kind], response.data) for response in responses if response.outcome is Outcome.PULLED
    ]
    if len(messages) < len(responses):
        outcomes = {response.outcome for response in responses}
        if Outcome.REFUSED in outcomes:
            raise Refused("refused", "the queue refused a pull")
        if Outcome.PUSHED in outcomes:
            raise WireError("a pull was answered without a message")
    return messages
