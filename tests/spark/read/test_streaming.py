"""Streaming reads: each record once, in order, over limits, restarts, new topics and topics that are gone."""

from __future__ import annotations

import json
from typing import Any

from pyspark.errors import StreamingQueryException
from twisted.internet.defer import Deferred

from streamd.spark import behind_latest
from tests.rigs.sesp_client import Sesp
from tests.rigs.spark.session import Collected, SparkCase


def offsets(rows: dict[str, list[tuple[int, bytes]]]) -> dict[str, list[int]]:
    return {topic: [offset for offset, _ in found] for topic, found in rows.items()}


class StreamTests(SparkCase):
    """From files. A query costs seconds, so a test is a story of several."""

    def read(self, checkpoint: str = "checkpoint", **options: object) -> Collected:
        """What a query that ends with the data finds, from where the last one with this checkpoint stopped."""
        found = Collected()
        found.run(self.stream(**options), self.directory / checkpoint)
        return found

    def end(self, found: Collected) -> Any:
        """Where a query says that it has come to."""
        return json.loads(found.progress[-1]["sources"][0]["endOffset"])["topics"]

    def refused(self, wanted: str, **options: object) -> None:
        error = self.assertRaises(StreamingQueryException, self.read, **options)
        self.assertIn(wanted, str(error))

    def test_on_and_on(self) -> Deferred[None]:
        """In triggers of the size that was asked for, on from the checkpoint, with topics that are new."""
        return self.do(self._on_and_on)

    def _on_and_on(self) -> None:
        self.publish("a", *map(str, range(20)))
        self.publish("b", *map(str, range(5)))
        options: dict[str, Any] = {"topicPattern": "[abc]", "maxRecordsPerTrigger": 10, "minRecordsPerTrigger": 9}
        found = self.read(**options)
        # The last trigger has less than it waits for: at the end of the data nothing is waited for.
        self.assertEqual(found.batches, [10, 10, 5])
        self.assertEqual(offsets(found.rows), {"a": list(range(20)), "b": list(range(5))})
        self.assertEqual(found.rows["a"][7], (7, b"7"))
        self.assertEqual(self.read(**options).rows, {})
        self.publish("a", "more")
        self.publish("c", "new", "newer")
        self.publish("d", "not for us")
        self.assertEqual(offsets(self.read(**options).rows), {"a": [20], "c": [0, 1]})
        self.assertEqual(offsets(self.read("latest", topic="a", startingOffsets="latest").rows), {})
        self.publish("a", "last")
        found = self.read("latest", topic="a", startingOffsets="latest", maxBytesPerTrigger="1k")
        self.assertEqual(offsets(found.rows), {"a": [21]})

    def test_gone(self) -> Deferred[None]:
        """What was truncated, deleted or made again since the last trigger is noticed, and told or counted."""
        return self.do(self._gone)

    def _gone(self) -> None:
        self.publish("a", *map(str, range(5)))
        self.publish("b", "x")
        self.read(topics="a,b")
        self.publish("a", *map(str, range(5, 10)))
        with Sesp(self.daemon) as sesp:
            sesp.ask("@a")
            sesp.ask("%8")
        self.refused("offsets 5 to 7 of topic 'a' are gone", topics="a,b")
        found = self.read(topics="a,b", onDataLoss="skip")
        self.assertEqual(offsets(found.rows), {"a": [8, 9]})
        self.assertEqual((self.end(found)["a"]["next"], self.end(found)["a"]["lost"]), (10, 3))
        with Sesp(self.daemon) as sesp:
            sesp.ask("!b")
        self.publish("b", "y", "z")
        self.refused("topic 'b' was deleted and created again", topics="a,b")
        found = self.read(topics="a,b", onDataLoss="skip")
        self.assertEqual(found.rows, {"b": [(0, b"y"), (1, b"z")]})
        with Sesp(self.daemon) as sesp:
            sesp.ask("!b")
        self.refused("topic 'b' was deleted", topics="a,b")
        self.publish("a", "10")
        found = self.read(topics="a,b", onDataLoss="skip")
        self.assertEqual(offsets(found.rows), {"a": [10]})
        self.assertEqual(list(self.end(found)), ["a"])

    def test_left_out(self) -> Deferred[None]:
        """A topic that is taken out of the list is no loss: the query goes on without it."""
        return self.do(self._left_out)

    def _left_out(self) -> None:
        self.publish("a", "0")
        self.publish("b", "x")
        self.read(topics="a,b")
        self.publish("a", "1")
        self.publish("b", "y")
        found = self.read(topics="a")
        self.assertEqual((offsets(found.rows), list(self.end(found))), ({"a": [1]}, ["a"]))
        # What came meanwhile is there for who reads it again, from its beginning.
        self.assertEqual(offsets(self.read(topics="a,b").rows), {"b": [0, 1]})
        self.assertEqual(behind_latest(found.progress[-1], **self.where())["maxOffsetsBehindLatest"], 0)
        self.publish("a", "2", "3")
        self.assertEqual(
            behind_latest(found.progress[-1], **self.where()),
            {"avgOffsetsBehindLatest": 2, "minOffsetsBehindLatest": 2, "maxOffsetsBehindLatest": 2},
        )


class ServerStreamTests(StreamTests):
    """From the daemon."""

    def where(self) -> dict[str, str]:
        return {"server": f"127.0.0.1:{self.daemon.port('pravega')}"}

    def positions(self, topic: str) -> Any:
        with Sesp(self.daemon) as sesp:
            return {name: told["position"] for name, told in json.loads(sesp.ask(f"?{topic}"))["groups"].items()}

    def test_group(self) -> Deferred[None]:
        """How far a query has come is seen in the daemon, to its last batch."""
        return self.do(self._group)

    def _group(self) -> None:
        self.publish("a", *map(str, range(25)))
        self.publish("b", "x")
        self.read(topics="a,b", maxRecordsPerTrigger=10, group="reports")
        self.assertEqual(self.positions("a"), {"reports": 25})
        self.assertEqual(self.positions("b"), {"reports": 1})
        self.publish("a", "more")
        self.read(topics="a,b", group="reports")
        self.assertEqual(self.positions("a"), {"reports": 26})
