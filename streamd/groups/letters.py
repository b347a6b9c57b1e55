"""Dead letters: messages that no reader of a group could handle, moved to a topic of their own.

A dead letter is one line of JSON, which every protocol can carry: the message as ``streamctl export`` writes it (topic,
offset, timestamp, and value or value_base64), and group, deliveries, reason and, where a reader said one, error.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from streamd.as_json import json_lines
from streamd.batch import Batch
from streamd.groups.attempts import Attempt, Attempts
from streamd.groups.group import Group
from streamd.groups.returned import ranges_of
from streamd.metrics import GroupCounts
from streamd.settings import GroupRule
from streamd.store.errors import NoSuchSegment, RecordsTruncated, SegmentExists, StoreError

if TYPE_CHECKING:
    from streamd.store import Run, Segment, Store

# Moved in one frame.
_LETTERS_AT_ONCE: Final = 64
_BYTES_AT_ONCE: Final = 1 << 20

# Where the topic of dead letters can't take them, it is tried again after so long.
_AGAIN_SECONDS: Final = 5.0


def dead_letter(run: Run, group: str, topic: str, attempt: Attempt) -> bytes:
    """The dead letter for the one record of a run."""
    message = json.loads(json_lines(topic, run.number, run.timestamp, run.tag, run.batch))
    told: dict[str, Any] = {"group": group, "deliveries": attempt.deliveries, "reason": attempt.why.word}
    if attempt.error:
        told["error"] = attempt.error
    return json.dumps({**message, **told}, ensure_ascii=False).encode()


class DeadLetters:
    """Moves what one group gives up, a few messages at a time, each in one frame with its acknowledgement."""

    _log = Logger()

    def __init__(self, store: Store, group: Group, counts: GroupCounts, rule: Callable[[], GroupRule | None]) -> None:
        self._store = store
        self._group = group
        self._counts = counts
        self._rule = rule
        self.attempts: Attempts
        self._queue: deque[int] = deque()
        self._moving = False
        self.moved = 0
        """How many messages became dead letters since the start."""

    def take(self, numbers: list[int]) -> None:
        """Move these, whenever that is possible."""
        self._queue.extend(numbers)
        if not self._moving:
            self._moving = True
            Deferred.fromCoroutine(self._move()).addBoth(self._ended)

    def _ended(self, result: Any) -> None:
        self._moving = False
        if isinstance(result, Failure):
            self._log.failure("dead letters of {group} can't be moved", result, group=self._group.name)

    async def _move(self) -> None:
        while self._queue:
            numbers = [self._queue.popleft() for _ in range(min(len(self._queue), _LETTERS_AT_ONCE))]
            try:
                await self._move_some(numbers)
            except NoSuchSegment as error:
                if self._group.segment.deleted:
                    return
                self._later(numbers, error)
            except StoreError as error:
                self._later(numbers, error)

    async def _move_some(self, numbers: list[int]) -> None:
        rule = self._rule()
        if rule is None or not rule.dead_letter:
            # The rules have changed meanwhile: readers get them again.
            self.attempts.postpone(numbers, 0.0)
            return
        target = await self._target(rule.dead_letter)
        letters: dict[int, bytes] = {}
        size = 0
        for at, number in enumerate(numbers):
            if not self.attempts.holds(number):
                continue  # acknowledged after all
            try:
                runs = await self._store.read(self._group.segment, number, bytes_max=1, records_max=1)
            except RecordsTruncated:
                self.attempts.forget([number])
                continue
            attempt = self.attempts.get(number)
            if attempt is None or not attempt.held:
                continue
            letters[number] = dead_letter(runs[0], self._group.name, self._group.segment.name, attempt)
            size += len(letters[number])
            if size >= _BYTES_AT_ONCE:
                self._queue.extendleft(reversed(numbers[at + 1 :]))
                break
        if not letters:
            return
        ranges = ranges_of(sorted(letters))
        batch = Batch.of(list(letters.values()))
        await self._store.hand_over(self._group.segment, self._group.name, ranges, target, batch)
        self.attempts.forget(letters)
        self.moved += len(letters)
        self._counts.dead_letters += len(letters)
        self._log.warn(
            "{count} messages of {segment} were given up by group {group} and are in {dead_letter} now",
            count=len(letters),
            segment=self._group.segment.name,
            group=self._group.name,
            dead_letter=rule.dead_letter,
        )

    async def _target(self, topic: str) -> Segment:
        """The topic of the dead letters, made where it is missing."""
        try:
            return self._store.find(topic)
        except NoSuchSegment:
            pass
        try:
            return await self._store.create(topic)
        except SegmentExists:
            return self._store.find(topic)

    def _later(self, numbers: list[int], error: StoreError) -> None:
        self._log.error(
            "{count} messages of {segment} can't become dead letters now, and are kept: {reason}",
            count=len(numbers),
            segment=self._group.segment.name,
            reason=str(error),
        )
        self.attempts.postpone(numbers, _AGAIN_SECONDS)
