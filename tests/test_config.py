"""streamd.toml and the command line, laid over each other and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from twisted.internet.interfaces import IProtocolFactory
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from streamd.config import Config, ConfigError, Overrides, fill, load
from streamd.connections.core import Core
from streamd.interfaces import IStreamProtocol
from streamd.settings import Limits, LogSettings, RetentionRule, StoreSettings, setting


@dataclass(frozen=True)
class QueueSettings:
    queue: str = setting("main", "which queue")
    durable: bool = setting(True, "whether it is kept")
    share: float = setting(0.5, "how much of it", least=0.0)

    @property
    def groups(self) -> frozenset[str]:
        return frozenset({f"readers of {self.queue}"})


@implementer(IStreamProtocol)
class Queue:
    """A protocol with settings of its own."""

    name = "queue"
    summary = "a protocol for these tests"
    default = "tcp:9:interface=127.0.0.1"

    def configure(self, table: Mapping[str, object]) -> object:
        return fill(QueueSettings, table)

    def factory(self, core: Core, settings: object) -> IProtocolFactory:
        raise AssertionError("nobody serves it here")


@implementer(IStreamProtocol)
class Quiet(Queue):
    """A protocol that is off unless somebody turns it on."""

    name = "quiet"
    default = "off"


class ConfigCase(SynchronousTestCase):
    """Loads a file's text with two protocols."""

    def setUp(self) -> None:
        self.path = Path(self.mktemp())

    def load(self, text: str | None, overrides: Overrides = Overrides()) -> Config:
        if text is not None:
            self.path.write_text(text, encoding="utf-8")
        path = None if text is None else str(self.path)
        return load(path, overrides, [Quiet(), Queue()], MemoryReactorClock())

    def endpoints(self, text: str | None, overrides: Overrides = Overrides()) -> list[tuple[str, str]]:
        return [(each.protocol.name, each.endpoint) for each in self.load(text, overrides).services]

    def error(self, text: str | None, overrides: Overrides = Overrides()) -> str:
        """What is wrong with the file, without the file's name, which must be in front."""
        said = str(self.assertRaises(ConfigError, self.load, text, overrides))
        self.assertNotIn("\n", said)
        if not said.startswith("--"):
            self.assertEqual(said[: len(str(self.path)) + 2], f"{self.path}: ")
            said = said[len(str(self.path)) + 2 :]
        return said


class DefaultTests(ConfigCase):
    def test_no_file(self) -> None:
        """Without a file everything has its default, and each protocol its endpoint."""
        config = self.load(None)
        self.assertEqual(config.data_dir, "streamd-data")
        self.assertEqual((config.log, config.store, config.limits), (LogSettings(), StoreSettings(), Limits()))
        self.assertEqual([each.endpoint for each in config.services], [Queue.default])
        self.assertEqual(config.services[0].settings, QueueSettings())

    def test_empty_file(self) -> None:
        """An empty file is no file."""
        self.assertEqual(self.load("").limits, self.load(None).limits)
        self.assertEqual(self.endpoints(""), self.endpoints(None))

    def test_one_value(self) -> None:
        """A value changes itself and leaves the others."""
        config = self.load('data_dir = "d"\n[limits]\nmessage_bytes_max = 5\nframe_seconds_max = 2')
        self.assertEqual(config.data_dir, "d")
        self.assertEqual(config.limits, Limits(message_bytes_max=5, frame_seconds_max=2.0))
        self.assertIsInstance(config.limits.frame_seconds_max, float)


class WrongValueTests(ConfigCase):
    def test_each(self) -> None:
        """Whatever is wrong is said in one line that names file and key."""
        cases = {
            "x = 1": "x: no such key; known are access, data_dir, groups, insecure, limits, log, queue, quiet, "
            "retention, store",
            "[limit]": "limit: no such key; did you mean limits?",
            "[limits]\nmessage_byte_max = 1": "limits.message_byte_max: no such key; did you mean message_bytes_max?",
            "limits = 3": "limits: expected a table, got 3",
            "[[limits]]": "limits: expected a table, got [{}]",
            "data_dir = 3": "data_dir: expected a string, got 3",
            'data_dir = ""': "data_dir: expected a directory's name",
            '[limits]\nmessage_bytes_max = "x"': 'limits.message_bytes_max: expected an integer, got "x"',
            "[limits]\nmessage_bytes_max = true": "limits.message_bytes_max: expected an integer, got true",
            "[limits]\nmessage_bytes_max = 1.0": "limits.message_bytes_max: expected an integer, got 1.0",
            "[limits]\nmessage_bytes_max = []": "limits.message_bytes_max: expected an integer, got []",
            "[limits]\nmessage_bytes_max = 1979-05-27": "limits.message_bytes_max: expected an integer, got 1979-05-27",
            "[limits.message_bytes_max]": "limits.message_bytes_max: expected an integer, got a table",
            "[limits]\nmessage_bytes_max = 0": "limits.message_bytes_max: 0 is below the least value of 1",
            f"[limits]\nline_bytes_max = {1 << 30}": (
                f"limits.line_bytes_max: is over limits.buffered_bytes_max, which is {64 << 20}"
            ),
            f"[limits]\nmessage_bytes_max = {1 << 63}": f"limits.message_bytes_max: {1 << 63} is out of range",
            "[limits]\nframe_seconds_max = nan": "limits.frame_seconds_max: NaN is out of range",
            "[limits]\nframe_seconds_max = inf": "limits.frame_seconds_max: Infinity is out of range",
            f"[limits]\nframe_seconds_max = 1{'0' * 400}": "limits.frame_seconds_max: Infinity is out of range",
            "[limits]\nframe_seconds_max = 0": "limits.frame_seconds_max: 0.0 is below the least value of 0.1",
            "[limits]\nframe_seconds_max = false": "limits.frame_seconds_max: expected a number, got false",
            '[store]\nsync = "sometimes"': 'store.sync: expected one of always, interval, never; got "sometimes"',
            "[queue]\ndurable = 1": "queue.durable: expected true or false, got 1",
            "[queue]\nqueu = 1": "queue.queu: no such key; did you mean queue?",
            "[[queue]]\n[[queue]]\nshare = -1": "queue[2].share: -1.0 is below the least value of 0.0",
            "queue = 1": "queue: expected a table, got 1",
            "queue = [1]": "queue: expected a table, got 1",
            "retention = 1": "retention[1]: expected a table, got 1",
            "retention = [{}, 2]": "retention[2]: expected a table, got 2",
            "[[retention]]\nbytes = 1": "retention[1].bytes: no such key; did you mean bytes_max?",
            "[[retention]]\npattern = 1": "retention[1].pattern: expected a string, got 1",
            "[[retention]]\n[[retention]]\nage_seconds_max = -1": (
                "retention[2].age_seconds_max: -1.0 is below the least value of 0"
            ),
            "[[retention]]\nrecords_max = 0.5": "retention[1].records_max: expected an integer, got 0.5",
            "[store]\nretention_seconds = 0": "store.retention_seconds: 0.0 is below the least value of 0.1",
        }
        for text, expected in cases.items():
            self.assertEqual(self.error(text), expected, text)

    def test_endpoints(self) -> None:
        """A string that can't be an endpoint is found before anything listens."""
        hint = "expected something like tcp:4840:interface=127.0.0.1 or unix:/run/streamd.sock"
        cases = {
            '""': hint,
            '"4840"': hint,
            '"udp:1"': hint,
            '"tcp"': "missing 1 required positional argument: 'port'",
            '"tcp:x"': "'x' is not a number",
            '"tcp:65536"': "port 65536 is not between 0 and 65535",
            '"tcp:port=-1"': "port -1 is not between 0 and 65535",
            '"tcp:1:interfac=::1"': "got an unexpected keyword argument 'interfac'",
            '"unix:"': "a path is missing",
            '"systemd:domain=INET:index=7"': "no such socket was handed over",
            '"ssl:1:privateKey=/nowhere/key.pem"': "No such file or directory: /nowhere/key.pem",
        }
        for stated, expected in cases.items():
            said = f"queue.endpoint: bad endpoint {stated}: {expected}"
            self.assertEqual(self.error(f"[queue]\nendpoint = {stated}"), said)
        for stated in ("1", "[]", "[1]", "{}"):
            self.assertIn(
                "queue.endpoint: expected an endpoint or a list of endpoints, got",
                self.error(f"[queue]\nendpoint = {stated}"),
            )

    def test_not_toml(self) -> None:
        """What is no TOML is told with its line and column."""
        self.assertRegex(self.error("a = 1\nb = = 2"), r"^not valid TOML: .*line 2, column 5")

    def test_not_text(self) -> None:
        """A file that is not UTF-8 is told with the byte."""
        self.path.write_bytes(b"a = '\xff'")
        said = str(self.assertRaises(ConfigError, load, str(self.path), Overrides(), [], MemoryReactorClock()))
        self.assertEqual(said, f"{self.path}: not UTF-8 at byte 5")

    def test_no_such_file(self) -> None:
        """A file that is asked for and is not there is an error."""
        for path, reason in ((str(self.path), "No such file or directory"), (".", "Is a directory")):
            said = str(self.assertRaises(ConfigError, load, path, Overrides(), [], MemoryReactorClock()))
            self.assertEqual(said, f"{path}: {reason}")

    def test_deep(self) -> None:
        """A file made to exhaust the parser is refused like any other."""
        self.assertEqual(self.error("a = " + "[" * 100_000), "not valid TOML: nested too deeply")


class GroupRuleTests(ConfigCase):
    def test_rules(self) -> None:
        """Rules of groups in their order, each key checked."""
        text = '[[groups]]\ntopic = "a*"\nretry_seconds = [1, 2.5]\n'
        text += '[[groups]]\ndeliveries_max = 3\ndead_letter = "dead"\n'
        first, second = self.load(text).groups
        self.assertEqual((first.topic, first.group, first.retry_seconds), ("a*", "*", (1.0, 2.5)))
        self.assertEqual((second.deliveries_max, second.dead_letter), (3, "dead"))

    def test_wrong(self) -> None:
        """What would lose messages, or send them in a circle, is refused with the rule's number."""
        circle = '[[groups]]\ntopic = "{}"\ndeliveries_max = 1\ndead_letter = "{}"\n'
        for text, error in (
            ("deliveries_max = 2", r"groups\[1\]\.dead_letter: is missing"),
            ('dead_letter = "x"', r"groups\[1\]\.deliveries_max: is missing"),
            ('deliveries_max = 1\ndead_letter = "\\n"', r"groups\[1\]\.dead_letter: "),
            ("retry_seconds = [-1]", r"groups\[1\]\.retry_seconds: -1.0 is below the least value of 0"),
            ("retry_seconds = 1", r"groups\[1\]\.retry_seconds: expected a list of numbers"),
            (circle.format("a", "b").removeprefix("[[groups]]\n") + circle.format("b", "a"), "groups: .* a circle"),
        ):
            self.assertRegex(self.error(f"[[groups]]\n{text}"), error)


class RetentionTests(ConfigCase):
    def test_none(self) -> None:
        """Without a rule everything is kept."""
        self.assertEqual(self.load(None).retention, ())
        self.assertEqual(self.load("retention = []").retention, ())

    def test_rules(self) -> None:
        """Rules keep their order, since the first that fits counts; a key that is left out has its default."""
        text = '[[retention]]\npattern = "a*"\nbytes_max = 7\n[[retention]]\nage_seconds_max = 2'
        wanted = (RetentionRule(pattern="a*", bytes_max=7), RetentionRule(pattern="*", age_seconds_max=2.0))
        self.assertEqual(self.load(text).retention, wanted)

    def test_one_table(self) -> None:
        """A single rule may be written as a plain table."""
        self.assertEqual(self.load("[retention]\nrecords_max = 3").retention, (RetentionRule(records_max=3),))

    def test_archive_group(self) -> None:
        """The group of an archive is none that the readers of a protocol acknowledge in, on whichever endpoint."""
        text = (
            '[[queue]]\n[[queue]]\nqueue = "b"\nendpoint = "tcp:2"\n'
            '[[retention]]\n[[retention]]\narchive_group = "readers of b"\n'
        )
        self.assertEqual(len(self.load(text).retention), 2)
        self.assertRegex(
            self.error(text + "archived_only = true"),
            r'retention\[2\]\.archive_group: queue has readers in group "readers of b"',
        )
        self.load(text.replace("readers of b", "archive") + "archived_only = true")


class ServiceTests(ConfigCase):
    def test_one(self) -> None:
        """An endpoint in the table replaces the default."""
        self.assertEqual(self.endpoints('[queue]\nendpoint = "tcp:1"'), [("queue", "tcp:1")])

    def test_list(self) -> None:
        """A list is several endpoints with the same settings."""
        config = self.load('[queue]\nqueue = "a"\nendpoint = ["tcp:1", "unix:/s"]')
        self.assertEqual([each.endpoint for each in config.services], ["tcp:1", "unix:/s"])
        self.assertEqual([each.settings for each in config.services], [QueueSettings(queue="a")] * 2)

    def test_tables(self) -> None:
        """Several tables are several endpoints, each with settings of its own."""
        config = self.load('[[queue]]\nendpoint = "tcp:1"\n[[queue]]\nendpoint = "tcp:2"\nqueue = "b"')
        found = [(each.endpoint, each.settings) for each in config.services]
        self.assertEqual(found, [("tcp:1", QueueSettings()), ("tcp:2", QueueSettings(queue="b"))])

    def test_off(self) -> None:
        """off is no endpoint, whether it is the default or stated, but only by itself."""
        self.assertEqual(self.endpoints('[queue]\nendpoint = "off"'), [])
        self.assertEqual(
            self.endpoints('[queue]\nendpoint = ["off"]\n[quiet]\nendpoint = "tcp:1"'), [("quiet", "tcp:1")]
        )
        self.assertEqual(
            self.error('[queue]\nendpoint = ["off", "tcp:1"]'),
            'queue.endpoint: "off" and an endpoint at the same time',
        )

    def test_off_is_checked(self) -> None:
        """A service that is off is checked all the same: it will be turned on one day."""
        self.assertIn("queue.durable: expected", self.error('[queue]\nendpoint = "off"\ndurable = 3'))


class CommandLineTests(ConfigCase):
    def test_wins(self) -> None:
        """What the command line says is what holds; the file keeps the rest."""
        text = 'data_dir = "a"\n[store]\nsync = "never"\nsync_interval_ms = 7\n[log]\nlevel = "warn"'
        config = self.load(text, Overrides("b", {"format": "json"}, {"sync": "interval"}))
        self.assertEqual(config.data_dir, "b")
        self.assertEqual(config.store, StoreSettings(sync="interval", sync_interval_ms=7))
        self.assertEqual(config.log, LogSettings(format="json", level="warn"))

    def test_does_not_hide(self) -> None:
        """A wrong value in the file is an error also where the command line has another."""
        for text in ("data_dir = 1", "[store]\nsync = 1", "[queue]\nendpoint = 1"):
            self.error(text, Overrides("b", {}, {"sync": "never"}, {"queue": ["tcp:1"]}))

    def test_endpoints(self) -> None:
        """Endpoints of the command line replace all of the file's, with the settings of its first table."""
        text = '[[queue]]\nqueue = "a"\nendpoint = "tcp:1"\n[[queue]]\nqueue = "b"\nendpoint = "tcp:2"'
        config = self.load(text, Overrides(endpoints={"queue": ["tcp:3", "tcp:4"]}))
        found = [(each.endpoint, each.settings) for each in config.services]
        self.assertEqual(found, [("tcp:3", QueueSettings(queue="a")), ("tcp:4", QueueSettings(queue="a"))])
        self.assertEqual(self.endpoints(text, Overrides(endpoints={"queue": ["off"]})), [])
        self.assertEqual(
            self.endpoints(text, Overrides(endpoints={"queue": ["off"], "quiet": ["tcp:5"]})), [("quiet", "tcp:5")]
        )

    def test_errors(self) -> None:
        """An error of the command line names the option, not the file."""
        self.assertEqual(
            self.error("", Overrides(endpoints={"queue": ["tcp:x"]})),
            "--queue: bad endpoint \"tcp:x\": 'x' is not a number",
        )
        self.assertEqual(
            self.error("", Overrides(endpoints={"queue": ["off", "tcp:1"]})),
            '--queue: "off" and an endpoint at the same time',
        )
        self.assertEqual(self.error("", Overrides(data_dir="")), "--data-dir: expected a directory's name")
