"""Reader groups from the command line, as somebody uses them who looks why something is stuck."""

from __future__ import annotations

import json
from typing import Any

from streamd.client import StorageClient
from tests.rigs.cli.case import DaemonCase
from tests.rigs.client.peers import address


class GroupsTests(DaemonCase):
    def client(self) -> StorageClient:
        client = StorageClient(address(self.daemon, "pravega"))
        client.__enter__()
        self.addCleanup(client.__exit__, None, None, None)
        return client

    def shown(self, topic: str, group: str) -> Any:
        (told,) = self.ctl("groups", "show", topic, group, "--json").json
        return told

    def test_consume(self) -> None:
        """A member reads and acknowledges as told; what was not acknowledged comes again."""
        self.ctl("publish", "t", "one", "two", "three", "--create")
        self.assertEqual(self.ctl("groups", "consume", "t", "g", "-c", "2", "--ack", "no").text, "one\ntwo\n")
        self.assertEqual(self.ctl("groups", "consume", "t", "g", "-c", "1").text, "one\n")
        told = self.shown("t", "g")
        self.assertEqual((told["position"], told["lag"], told["members"], told["outstanding"]), (1, 2, 0, 0))
        self.assertIsNotNone(told["oldest"])
        self.assertEqual(self.ctl("groups", "consume", "t", "g", "--format", "%t:%o=%s;").text, "t:1=two;t:2=three;")
        self.assertEqual(self.ctl("groups", "consume", "t", "g").text, "")
        self.assertIsNone(self.shown("t", "g")["oldest"])
        self.refused(1, "nosuch: there is no such topic", "groups", "consume", "nosuch", "g")

    def test_bad_group_name(self) -> None:
        """A name that no group can have is refused before anything is delivered."""
        self.ctl("publish", "t", "one", "--create")
        for name in ("", "a\nb", "x" * 256):
            ended = self.run_ctl("groups", "consume", "t", name)
            self.assertEqual((ended.status, ended.text), (1, ""), name)
            self.assertIn("1 to 255 bytes of UTF-8 without control characters", ended.err)
        self.assertEqual(self.ctl("groups", "list", "--json").json, [])

    def test_due_at_once(self) -> None:
        """A message whose pause is over is there for a member that does not wait."""
        self.ctl("publish", "t", "bad", "--create")
        self.ctl("groups", "set", "t", "g", "--retry-seconds", "0.001")
        for _ in range(3):
            self.assertEqual(self.ctl("groups", "consume", "t", "g", "--ack", "nack", "-c", "1").text, "bad\n")

    def test_list(self) -> None:
        """The groups of all topics, or of those that fit; lag is what is still to be acknowledged."""
        self.ctl("publish", "a", "1", "2", "3", "--create")
        self.ctl("publish", "b", "1", "--create")
        for topic in ("a", "b"):
            self.ctl("groups", "consume", topic, "g", "-c", "1")
        client = self.client()
        id = client.segment("a").id
        client.take(id, "g")
        client.acknowledge(id, "g", [2])
        rows = [line.split() for line in self.ctl("groups", "list").text.splitlines()]
        self.assertEqual(rows[0][:5], ["topic", "group", "members", "lag", "outstanding"])
        self.assertEqual(rows[1:], [["a", "g", "1", "1", "1", "0", "0"], ["b", "g", "0", "0", "0", "0", "0"]])
        self.assertEqual([each["topic"] for each in self.ctl("groups", "list", "b*", "--json").json], ["b"])
        self.assertIn("there is no reader group", self.run_ctl("groups", "list", "x*").err)

    def test_reset(self) -> None:
        """A group is moved with --apply alone, to each kind of place; not below its readers, unless by force."""
        self.ctl("publish", "t", *map(str, range(10)), "--create")
        self.ctl("groups", "consume", "t", "g", "-c", "4")
        dry = self.run_ctl("groups", "reset", "t", "g", "--to", "earliest")
        self.assertIn("4 messages to be delivered again", dry.text)
        self.assertIn("give --apply", dry.err)
        self.assertEqual(self.shown("t", "g")["position"], 4)
        for place, position in (("latest", 10), ("7", 7), ("earliest", 0), ("1h", 0), ("2999-01-01T00:00", 10)):
            self.ctl("groups", "reset", "t", "g", "--to", place, "--apply")
            self.assertEqual(self.shown("t", "g")["position"], position, place)
        self.refused(2, "lies outside", "groups", "reset", "t", "g", "--to", "11", "--apply")
        client = self.client()
        client.take(client.segment("t").id, "g")
        self.refused(1, "give --force", "groups", "reset", "t", "g", "--to", "3", "--apply")
        self.refused(1, "give --force", "groups", "delete", "t", "g", "--yes")
        self.ctl("groups", "reset", "t", "g", "--to", "3", "--apply", "--force")
        taken = client.take(client.segment("t").id, "g", seconds=5)
        self.assertEqual(taken.runs[0].number, 3)

    def test_delete(self) -> None:
        """A group is forgotten; a person is asked; one that is not there is an error."""
        self.ctl("publish", "t", "x", "--create")
        self.ctl("groups", "consume", "t", "g")
        ended = self.run_ctl("groups", "delete", "t", "g", given=b"no\n")
        self.assertEqual((ended.status, self.shown("t", "g")["lag"]), (1, 0))
        self.ctl("groups", "delete", "t", "g", "--yes")
        self.refused(1, "has no reader group 'g'", "groups", "show", "t", "g")
        self.refused(1, "has no reader group 'g'", "groups", "delete", "t", "g", "--yes")

    def test_dead(self) -> None:
        """A message that is refused too often is found among the dead letters, and sent back from there, once."""
        self.ctl("publish", "t", "bad", "--create")
        self.refused(2, "give --deliveries-max with --dead-letter", "groups", "set", "t", "g")
        self.refused(1, "dead_letter: is missing", "groups", "set", "t", "g", "--deliveries-max", "2")
        self.ctl("groups", "set", "t", "g", "--deliveries-max", "2", "--dead-letter", "t.dead", "--retry-seconds", "0")
        for _ in range(2):
            self.ctl("groups", "consume", "t", "g", "-c", "1", "--wait", "10", "--ack", "nack")
        # The letter is written when it is read here.
        tail = self.ctl("tail", "t.dead", "-f", "-c", "1").text if self.exists("t.dead") else ""
        letter = json.loads(tail)
        self.assertEqual(self.shown("t", "g")["rule"]["deliveries_max"], 2)
        self.assertEqual((letter["topic"], letter["offset"], letter["deliveries"]), ("t", 0, 2))
        (told,) = [json.loads(line) for line in self.ctl("groups", "dead", "t.dead", "--json").text.splitlines()]
        self.assertEqual((told["value"], told["reason"], told["error"]), ("bad", "refused", "refused by streamctl"))
        self.assertIn("give --apply", self.run_ctl("groups", "dead", "t.dead", "--send-back").err)
        self.assertEqual(self.ctl("tail", "t").text, "bad\n")
        self.ctl("groups", "dead", "t.dead", "--send-back", "--apply")
        self.ctl("groups", "dead", "t.dead", "--send-back", "--apply")
        self.assertEqual(self.ctl("tail", "t").text, "bad\nbad\n")
        self.assertIn("no dead letters", self.run_ctl("groups", "dead", "t.dead").err)
        self.refused(1, "is no dead letter", "groups", "dead", "t")

    def exists(self, topic: str) -> bool:
        """Wait until a topic is there."""
        with StorageClient(address(self.daemon, "pravega")) as client:
            while not client.named([topic]):
                pass
        return True

    def test_tail_group(self) -> None:
        """What a group has not acknowledged is shown, and stays so."""
        self.ctl("publish", "t", "one", "two", "three", "--create")
        self.ctl("groups", "consume", "t", "g", "-c", "1")
        self.assertEqual(self.ctl("tail", "t", "--group", "g").text, "two\nthree\n")
        self.assertEqual(self.ctl("tail", "t", "--group", "g").text, "two\nthree\n")
        self.refused(1, "has no reader group 'x'", "tail", "t", "--group", "x")


class ContextTests(DaemonCase):
    def test_contexts(self) -> None:
        """A daemon is found by its name; an option wins over a context, and that over nothing."""
        home = {"XDG_CONFIG_HOME": self.path(), "STREAMD_SERVER": ""}
        from tests.rigs.cli.run import ctl

        self.assertIn("there is no context", ctl("context", "list", env=home).err)
        self.assertEqual(ctl("context", "set", "here", address(self.daemon, "pravega"), env=home).status, 0)
        self.assertEqual(ctl("context", "set", "there", "127.0.0.9", env=home).text, "there: 127.0.0.9:12345\n")
        self.assertEqual(ctl("topics", env=home).status, 0, "the first one is chosen")
        self.assertEqual(ctl("topics", "--context", "there", env=home).status, 69)
        self.assertEqual(ctl("topics", env={**home, "STREAMD_CONTEXT": "there"}).status, 69)
        self.assertEqual(ctl("context", "use", "there", env=home).status, 0)
        self.assertEqual(ctl("topics", env=home).status, 69)
        self.assertEqual(ctl("topics", env={**home, "STREAMD_SERVER": address(self.daemon, "pravega")}).status, 0)
        # Also where Spark is started: after this is known.
        ended = ctl("archive", "t", "--to", self.path(), env={**home, "STREAMD_SERVER": "127.0.0.1:1"})
        self.assertIn("no daemon at 127.0.0.1:1", ended.err)
        listed = ctl("context", "list", "--json", env=home).json
        self.assertEqual([(each["name"], each["current"]) for each in listed], [("here", False), ("there", True)])
        self.assertEqual(ctl("context", "remove", "there", env=home).status, 0)
        for arguments in (("use", "there"), ("remove", "there"), ("set", "x", "a:b")):
            self.assertEqual(ctl("context", *arguments, env=home).status, 2)
        self.assertEqual(ctl("topics", "--context", "there", env=home).status, 2)
