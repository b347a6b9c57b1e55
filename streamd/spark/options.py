"""What the user of ``format("streamd")`` wants, checked before anything is opened.

Spark gives options as text, with names in any case. What can't be used is refused with a sentence that says what to do.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from difflib import get_close_matches
from typing import Final, Literal

from streamd.client.address import TlsAddress, parse_address

OnDataLoss = Literal["fail", "skip"]

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

TRIGGER_BYTES: Final = 1 << 30
"""What a trigger reads at most where no limit is given: nobody wants all of a large topic in the first one."""
TRIGGER_DELAY_SECONDS: Final = 900.0

_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_MICROSECONDS: Final = 1_000_000
_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DURATION: Final = re.compile(rf"(\d+)\s*({'|'.join(_SECONDS)})s?", re.IGNORECASE)
# Seconds of the year 5138. What is larger is meant as milliseconds or less, and would be taken for a time far ahead.
_EPOCH_SECONDS_MAX: Final = 100_000_000_000

_OFFSET_MAX: Final = (1 << 63) - 1

BOTH: Final = (
    *("path", "server", "topic", "topics", "topicPattern", "startingOffsets", "startingTimestamp"),
    *("minPartitions", "maxRecordsPerPartition", "onDataLoss"),
)
"""Options of every read."""
BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp")
STREAM_ONLY: Final = ("maxRecordsPerTrigger", "maxBytesPerTrigger", "minRecordsPerTrigger", "maxTriggerDelay", "group")


KAFKAS: Final = {
    "kafka.bootstrap.servers": "server",
    "subscribe": "topics",
    "subscribePattern": "topicPattern",
    "maxOffsetsPerTrigger": "maxRecordsPerTrigger",
    "minOffsetsPerTrigger": "minRecordsPerTrigger",
    "failOnDataLoss": "onDataLoss, fail or skip",
    "startingOffsetsByTimestamp": "startingTimestamp",
    "endingOffsetsByTimestamp": "endingTimestamp",
    "kafka.group.id": "group",
}
"""What options of Spark's Kafka connector are called here."""


class OptionError(ValueError):
    """An option that can't be used. The text names it, and says what can."""


@dataclass(frozen=True)
class Place:
    """Where to begin or to end, in each topic: a time, a record number, or one of the words for both ends."""

    word: str
    """EARLIEST or LATEST: for topics that `numbers` does not name."""
    numbers: Mapping[str, int | str] = field(default_factory=dict)
    """By topic, a record number or a word."""
    timestamp: int | None = None
    """In microseconds since 1970. Counts for all topics, if given."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read, for a batch and for a stream."""

    path: str | None
    server: str | None
    topics: tuple[str, ...]
    pattern: str | None
    starting: Place
    ending: Place
    partitions_min: int
    partition_records_max: int | None
    on_data_loss: OnDataLoss
    trigger_records_max: int | None = None
    trigger_bytes_max: int | None = None
    trigger_records_min: int = 0
    trigger_delay_seconds: float = TRIGGER_DELAY_SECONDS
    group: str | None = None

    def reads(self, topic: str) -> bool:
        """Whether a topic is among those to read, if it exists."""
        return topic in self.topics or self.selects(topic)

    def selects(self, topic: str) -> bool:
        """Whether the pattern is about a topic."""
        return self.pattern is not None and re.fullmatch(self.pattern, topic) is not None


def read_options(given: Mapping[str, str], now: int, *, stream: bool) -> ReadOptions:
    """The options of a read that is planned `now` (microseconds since 1970); OptionError."""
    return _Given(given, stream).options(now)


class _Given:
    """Options as they came, by their names in lower case."""

    def __init__(self, given: Mapping[str, str], stream: bool) -> None:
        self._stream = stream
        self._values = {name.lower(): value for name, value in given.items()}
        known = {name.lower(): name for name in (*BOTH, *BATCH_ONLY, *STREAM_ONLY)}
        wrong = {name.lower() for name in (BATCH_ONLY if stream else STREAM_ONLY)}
        kafkas = {name.lower(): ours for name, ours in KAFKAS.items()}
        for name in self._values:
            if name in kafkas:
                raise OptionError(f"{name} is an option of Kafka's connector: with streamd it is {kafkas[name]}")
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(sorted(known.values()))}"
                raise OptionError(f"there is no option {name}; {hint}")
            if name in wrong and stream:
                raise OptionError(
                    f"{known[name]} is for spark.read: a stream has no end. To stop where the data ends now, "
                    "use trigger(availableNow=True)"
                )
            if name in wrong:
                raise OptionError(f"{known[name]} is for spark.readStream: leave it out of spark.read")

    def options(self, now: int) -> ReadOptions:
        """All of them, checked one by one and against each other."""
        path, server = self._one_of("path", "server", why="where to read: a store's directory, or a daemon")
        topic, topics, pattern = self._one_of("topic", "topics", "topicPattern", why="what to read")
        if server is not None:
            _check_address(server)
        if path is not None:
            path = _absolute(path)
        if pattern is not None:
            _check_pattern(pattern)
        names = (topic,) if topic is not None else _names(topics) if topics is not None else ()
        records_max = self._count("maxRecordsPerTrigger")
        records_min = self._count("minRecordsPerTrigger")
        if records_min is not None and records_max is not None and records_min > records_max:
            raise OptionError(
                f"minRecordsPerTrigger is {records_min}, more than maxRecordsPerTrigger, {records_max}: lower it"
            )
        if records_min is None and self._get("maxTriggerDelay") is not None:
            raise OptionError("maxTriggerDelay says how long to wait for minRecordsPerTrigger: give that too")
        group = self._get("group")
        if group is not None and server is None:
            raise OptionError("group publishes the position in the daemon: give server in place of path")
        return ReadOptions(
            path,
            server,
            names,
            pattern,
            self._place("starting", EARLIEST, names, now),
            self._place("ending", LATEST, names, now),
            self._count("minPartitions") or 1,
            self._count("maxRecordsPerPartition"),
            self._on_data_loss(),
            records_max,
            self._bytes("maxBytesPerTrigger"),
            records_min or 0,
            self._delay(),
            group,
        )

    def _get(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        if value is not None and not value.strip():
            raise OptionError(f"{name} is empty: give a value, or leave it out")
        return value

    def _one_of(self, *names: str, why: str) -> list[str | None]:
        """The values of options of which exactly one must be given."""
        values = [self._get(name) for name in names]
        given = [name for name, value in zip(names, values, strict=True) if value is not None]
        if not given:
            raise OptionError(f"say {why}, with {' or '.join(names)}")
        if len(given) > 1:
            raise OptionError(f"{' and '.join(given)} contradict each other: give one of them")
        return values

    def _place(self, which: str, default: str, topics: tuple[str, ...], now: int) -> Place:
        offsets, time = self._get(f"{which}Offsets"), self._get(f"{which}Timestamp")
        if offsets is not None and time is not None:
            raise OptionError(f"{which}Offsets and {which}Timestamp contradict each other: give one of them")
        if time is not None:
            return Place(default, timestamp=timestamp(f"{which}Timestamp", time, now))
        if offsets is None:
            return Place(default)
        if offsets.lower() in (EARLIEST, LATEST):
            return Place(offsets.lower())
        return Place(default, _numbers(f"{which}Offsets", offsets, topics))

    def _count(self, name: str) -> int | None:
        value = self._get(name)
        if value is None:
            return None
        if not re.fullmatch(r"[0-9]{1,18}", value) or int(value) < 1:
            raise OptionError(f"{name} is {value!r}: give a whole number from 1 on")
        return int(value)

    def _bytes(self, name: str) -> int | None:
        value = self._get(name)
        if value is None:
            return None
        found = re.fullmatch(r"([0-9]{1,15})([kmg]?)", value.lower())
        if found is None or int(found[1]) < 1:
            raise OptionError(f"{name} is {value!r}: give a number of bytes, such as 67108864 or 64m")
        return int(found[1]) * _SIZES[found[2]]

    def _delay(self) -> float:
        value = self._get("maxTriggerDelay")
        if value is None:
            return TRIGGER_DELAY_SECONDS
        found = _DURATION.fullmatch(value)
        if found is None:
            raise OptionError(f"maxTriggerDelay is {value!r}: give a time such as '30 seconds' or '5 minutes'")
        return float(int(found[1]) * _SECONDS[found[2].lower()])

    def _on_data_loss(self) -> OnDataLoss:
        value = (self._get("onDataLoss") or "fail").lower()
        if value == "fail":
            return "fail"
        if value == "skip":
            return "skip"
        raise OptionError(f"onDataLoss is {value!r}: give fail, or skip to go on behind what is missing")


def _absolute(path: str) -> str:
    """A directory as executors have to name it, which run elsewhere."""
    if "://" in path:
        raise OptionError(f"path is {path!r}: give a directory that every executor sees, or server")
    return os.path.abspath(path)


def check_server_address(server: str) -> None:
    """Whether this can be the address of a daemon for all processes of Spark; ValueError."""
    address = parse_address(server)
    if isinstance(address, TlsAddress):
        for name in ("ca", "cert", "key"):
            file = getattr(address, name)
            if file is not None and not os.path.isabs(file):
                raise ValueError(f"{name} is {file!r}: give a path from / on, which every executor has")


def _check_address(server: str) -> None:
    try:
        check_server_address(server)
    except ValueError as error:
        raise OptionError(f"server is to be the address of the daemon's Pravega service: {error}")


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError(f"topicPattern is {pattern!r}, which is no regular expression: {error}")


def _names(text: str) -> tuple[str, ...]:
    """Topics with commas between them, or as a JSON array where their names have some."""
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError as error:
            raise OptionError(f"topics begins as a JSON array and is none: {error}")
        names = found if all(isinstance(name, str) for name in found) else []
    else:
        names = [name.strip() for name in text.split(",")]
    if not all(names) or not names:
        raise OptionError(f"topics is {text!r}: give names with commas between them, or a JSON array of names")
    # In the order in which they were named, each once.
    return tuple(dict.fromkeys(names))


def _numbers(name: str, text: str, topics: tuple[str, ...]) -> dict[str, int | str]:
    """Record numbers by topic."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise OptionError(f'{name} is {text!r}: give earliest, latest, or JSON by topic such as {{"orders": 100}}')
    for topic, number in found.items():
        if topics and topic not in topics:
            raise OptionError(f"{name} names the topic {topic!r}, which is not read: leave it out, or read it too")
        good = type(number) is int and 0 <= number <= _OFFSET_MAX
        if not good and number not in (EARLIEST, LATEST):
            raise OptionError(f"{name} of {topic!r} is {number!r}: give an offset from 0 on, earliest or latest")
    return found


def timestamp(name: str, text: str, now: int) -> int:
    """A time in microseconds since 1970: absolute in ISO 8601 (UTC where it names no zone), seconds, or relative."""
    text = text.strip()
    if text.startswith("-"):
        relative = _DURATION.fullmatch(text[1:].strip())
        if relative is not None:
            return now - int(relative[1]) * _SECONDS[relative[2].lower()] * _MICROSECONDS
    elif re.fullmatch(r"[0-9]{1,18}(\.[0-9]+)?", text):
        if int(text.partition(".")[0]) >= _EPOCH_SECONDS_MAX:
            raise OptionError(f"{name} is {text}: give seconds since 1970, with a fraction if need be")
        return int(Decimal(text) * _MICROSECONDS)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return microseconds(moment)
    raise OptionError(f"{name} is {text!r}: give ISO 8601, seconds since 1970, or a time ago such as '-10 minutes'")


def microseconds(moment: datetime) -> int:
    """A moment as the store counts time; in UTC where it names no zone."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * _MICROSECONDS + since.microseconds
