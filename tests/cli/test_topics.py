"""Topics from the command line: what a daemon tells and what its files tell is the same."""

from __future__ import annotations

from streamd.client import StorageClient
from tests.rigs.cli.case import DaemonCase
from tests.rigs.cli.run import ctl, environment
from tests.rigs.client.peers import address, listener


class TopicTests(DaemonCase):
    def test_create(self) -> None:
        """Topics are made; one that is there is an error, unless that is fine."""
        made = self.ctl("create", "made", "made too", "--json").json
        self.assertEqual([each["name"] for each in made], ["made", "made too"])
        ended = self.run_ctl("create", "new", "made", "never tried")
        self.assertEqual((ended.status, ended.text), (1, "new: made\n"))
        self.assertIn("made: there is such a topic already", ended.err)
        self.assertEqual(self.ctl("create", "made", "newer", "--exist-ok").text, "made: there already\nnewer: made\n")
        again = self.ctl("create", "made", "--exist-ok", "made too", "--json").json
        self.assertEqual([each["id"] for each in again], [each["id"] for each in made])
        self.refused(1, "can't be a name", "create", "bell\a")

    def test_topics(self) -> None:
        """The list, as a table and as JSON, by pattern, of a daemon and of its files."""
        self.publish("list.b", b"one", b"two")
        self.ctl("create", "list.a")
        self.ctl("truncate", "list.b", "--before", "1")
        told = self.ctl("topics", "list.*", "--json").json
        self.assertEqual([each["name"] for each in told], ["list.b", "list.a"])
        self.assertEqual({**told[0], "id": 0, "created": "", "modified": ""}, {
            "name": "list.b", "id": 0, "records": 1, "first_offset": 1, "next_offset": 2, "bytes": 11, "sealed": False,
            "created": "", "modified": "",
        })  # fmt: skip
        self.assertEqual(self.ctl("topics", "list.*", "--json", "--path", self.data).json, told)
        table = [line.split() for line in self.ctl("topics", "list.*").text.splitlines()]
        self.assertEqual(table[0], ["topic", "messages", "first", "next", "size"])
        self.assertEqual(table[1:], [["list.a", "0", "0", "0", "0", "B"], ["list.b", "1", "1", "2", "11", "B"]])
        self.assertEqual(self.ctl("topics", "list.*", "--names").text, "list.a\nlist.b\n")
        self.assertEqual(self.ctl("topics", "no such *", "--json").json, [])
        self.assertIn("there is no topic that fits 'no such *'", self.run_ctl("topics", "no such *").err)

    def test_wide(self) -> None:
        """Columns stand below each other, whatever alphabet a name has."""
        self.ctl("create", "日本", "e\u0301", "plain")
        lines = self.ctl("topics").text.splitlines()
        self.assertEqual(lines[1:], [
            "e\u0301             0      0     0   0 B",
            "plain         0      0     0   0 B",
            "日本          0      0     0   0 B",
        ])  # fmt: skip

    def test_info(self) -> None:
        """All of one topic; the files know of groups and writers too."""
        self.publish("known", b"one", b"two", b"three")
        with StorageClient(address(self.daemon, "pravega")) as client:
            id = client.segment("known").id
            client.set_group(id, "readers", 2)
        told = self.ctl("info", "known", "--json").json
        self.assertEqual((told["id"], told["records"], told["writers"], told["retention"]), (id, 3, 1, None))
        files = self.ctl("info", "known", "--json", "--path", self.data).json
        self.assertEqual(files["groups"], {"readers": {"position": 2, "lag": 1, "ranges": 0}})
        # The daemon knows more of a group: who is in it now.
        self.assertLessEqual(files["groups"]["readers"].items(), told["groups"]["readers"].items())
        alone = {"groups", "retention"}
        self.assertEqual(
            {key: value for key, value in files.items() if key not in alone},
            {key: value for key, value in told.items() if key not in alone},
        )
        self.assertIn("readers at 2, 1 behind", self.ctl("info", "known").text)
        self.refused(1, "'streamctl topics' lists them", "info", "unknown")
        self.refused(1, "unknown: there is no such topic", "info", "unknown", "--path", self.data)

    def test_delete(self) -> None:
        """Nothing goes without a yes, and nothing at all where one of them is not there."""
        self.publish("gone", b"one")
        self.refused_quietly("gone", b"n\n", "nothing was deleted")
        self.refused_quietly("gone", b"", "give --yes")
        self.refused(1, "no such topic", "delete", "gone", "never there", "--yes")
        self.assertEqual(len(self.ctl("topics", "gone", "--json").json), 1)
        self.assertEqual(self.ctl("delete", "gone", "--yes", "--json").json, [{"name": "gone", "records": 1}])
        self.publish("gone", b"one")
        ended = self.run_ctl("delete", "gone", given=b"y\n")
        self.assertEqual((ended.status, self.ctl("topics", "gone", "--json").json), (0, []))

    def refused_quietly(self, topic: str, given: bytes, text: str) -> None:
        ended = self.run_ctl("delete", topic, given=given)
        self.assertEqual(ended.status, 1)
        self.assertEqual(ended.text, "")
        self.assertIn("(1 message) for good?", ended.err)
        self.assertIn(text, ended.err)

    def test_seal(self) -> None:
        """A sealed topic takes no more, and says so."""
        self.publish("closed", b"one")
        self.assertEqual(self.ctl("seal", "closed", "--json").json, [{"name": "closed", "sealed": True}])
        self.assertIn("sealed", self.ctl("topics", "closed").text)
        self.refused(1, "takes no more messages", "publish", "closed", given=b"two\n")

    def test_truncate(self) -> None:
        """The oldest go, and the others keep their offsets."""
        self.publish("short", b"one", b"two", b"three")
        told = self.ctl("truncate", "short", "--before", "2", "--json").json
        self.assertEqual(told, {"name": "short", "first_offset": 2, "records": 1})
        self.assertEqual(self.ctl("tail", "short").text, "three\n")
        self.refused(1, "the first that is there is 2", "tail", "short", "--from", "0")
        self.refused(1, "the first that is there is 2", "tail", "short", "--from", "0", "--path", self.data)
        self.assertEqual(self.run_ctl("truncate", "short", "--before", "x").status, 2)
        self.refused(1, "it ends before offset 3, and nothing was dropped", "truncate", "short", "--before", "4")
        self.assertEqual(self.ctl("truncate", "short", "--before", "1h", "--json").json["records"], 1)
        self.assertEqual(self.ctl("truncate", "short", "--before", "end", "--json").json["first_offset"], 3)


class ConnectionTests(DaemonCase):
    """What is said where the daemon is not where it is looked for."""

    def test_nobody(self) -> None:
        """Nobody listens there."""
        self.refused(69, "Is the daemon running", "topics", "--server", "127.0.0.1:1")

    def test_another_service(self) -> None:
        """Somebody else listens there."""
        with listener(b"220 mail.example ESMTP\r\n" * 10) as server:
            self.refused(69, "is not that service of streamd", "topics", "--server", server)
        with listener(b"220 mail.example ESMTP\r\n" * 10) as server:
            self.refused(69, "is not that service of streamd", "publish", "x", "--server", server, given=b"one\n")

    def test_addresses(self) -> None:
        """An address that is none; a host alone has the default port."""
        self.refused(2, "--server: 'a:b' is no address", "topics", "--server", "a:b")
        self.refused(2, "--server: ", "seal", "x", "--server", "unix:")
        self.refused(69, "no connection to 127.0.0.9:12345", "seal", "x", "--server", "127.0.0.9")
        self.refused(2, "/nowhere: No such file", "topics", "--ca", "/nowhere")

    def test_environment(self) -> None:
        """An option wins over the environment."""
        env = environment(self.daemon)
        wrong = dict.fromkeys(env, "127.0.0.1:1")
        options = ("--server", env["STREAMD_SERVER"])
        self.assertEqual(ctl("topics", *options, env=wrong).status, 0)
        self.assertEqual(ctl("topics", env=wrong).status, 69)

    def test_path(self) -> None:
        """A directory that is no store."""
        self.refused(1, "Give the data directory of a daemon as --path", "topics", "--path", "/nowhere")
