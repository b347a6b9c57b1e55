"""What the user of the sink wants, checked before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from streamd.spark.options import OptionError, check_server_address

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_KNOWN: Final = ("server", "topic", "txnId", "txnVersion", "createTopics")

# Spark gives a sink its own options too.
_SPARKS: Final = ("checkpointLocation", "queryName")

_TYPES: Final = {"topic": ("string",), "value": ("string", "binary")}


@dataclass(frozen=True)
class SinkOptions:
    """How to write."""

    server: str
    topic: str | None
    txn_id: str | None
    create_topics: bool
    txn_version: int = 0
    """Of writes with one `txn_id`, those with a higher version are new ones."""


def sink_options(given: Mapping[str, str], *, stream: bool) -> SinkOptions:
    """The options of a write; OptionError."""
    values = {name.lower(): value for name, value in given.items()}
    known = {name.lower(): name for name in _KNOWN}
    for name in values:
        if name not in known and name not in map(str.lower, _SPARKS):
            if name == "path":
                raise OptionError("path is for reading: to write, give server, the daemon's Pravega service")
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(_KNOWN)}"
            raise OptionError(f"there is no option {name} to write with; {hint}")
    server, txn_id = values.get("server"), values.get("txnid")
    if server is None:
        raise OptionError("say where to write: give server, the daemon's Pravega service as host:port")
    try:
        check_server_address(server)
    except ValueError as error:
        raise OptionError(f"server: {error}") from None
    if stream and txn_id is not None:
        raise OptionError("txnId is for df.write: a stream writes each of its batches once by itself")
    if txn_id == "":
        raise OptionError("txnId is empty: give one that is this write's own")
    version = values.get("txnversion", "0")
    if not re.fullmatch(r"[0-9]{1,18}", version) or (txn_id is None and "txnversion" in values):
        raise OptionError("txnVersion is a whole number from 0 on, beside txnId: writes of an id that count up are new")
    create = values.get("createtopics", "true").lower()
    if create not in ("true", "false"):
        raise OptionError(f"createTopics is {create!r}: give true or false")
    return SinkOptions(server, values.get("topic"), txn_id, create == "true", int(version))


def check_columns(schema: StructType, topic: str | None, overwrite: bool) -> None:
    """Whether rows of this schema can be written; OptionError."""
    if overwrite:
        raise OptionError(
            'topics are appended to: use mode("append") or outputMode("append"), and for outputMode("update") '
            "foreachBatch(streamd.spark.each_batch(server=…, topic=…))"
        )
    types = {field.name: field.dataType.typeName() for field in schema.fields}
    for name, found in types.items():
        if name not in _TYPES:
            raise OptionError(f"there is no place for column {name!r}: select topic and value")
        if found not in _TYPES[name]:
            raise OptionError(f"column {name!r} is {found}: cast it to {' or '.join(_TYPES[name])}")
    if "value" not in types:
        raise OptionError("there is no column value: what is to be written is taken from there")
    if "topic" not in types and topic is None:
        raise OptionError("say what to write to: give the option topic, or a column topic")
