"""SIGHUP: what changes at once, what asks for a restart, and what changes nothing."""

from __future__ import annotations

import json
import os
import signal

from tests.rigs.access.daemon_case import EVERYTHING, LOOPBACK, RELOADED, DaemonCase
from tests.rigs.daemon import Daemon

SESP = f'[sesp]\nendpoint = "{LOOPBACK}"\n'


def rule(who: str, allow: str = EVERYTHING) -> str:
    return f'[[access]]\nwho = "{who}"\nallow = {allow}\n'


class ReloadTests(DaemonCase):
    """One daemon, and a file that changes."""

    def test_nothing(self) -> None:
        """The same file changes nothing, and says no more than that it was read."""
        text = f'{SESP}[fujin]\nendpoint = "off"\n'
        daemon = self.daemon(text).start()
        said = self.reload(daemon, text)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn("received SIGHUP", said)

    def test_access(self) -> None:
        """Rules count at once, for connections that are there, and in both directions."""
        daemon = self.daemon(SESP).start()
        connection = self.connect(daemon)
        self.assertEqual(self.ask(connection, "#a", "@a", ">x"), ["+"] * 3)
        said = self.reload(daemon, SESP + rule("anyone", '["read"]'))
        self.assertIn("access is changed: 1 rules, was 0", said)
        self.assertEqual(self.ask(connection, "<", ">y"), ["+x", "-NotAllowed"])
        self.reload(daemon, SESP)
        self.assertEqual(self.ask(connection, ">z"), ["+"])

    def test_limits(self) -> None:
        """Limits count for what comes, and are named with what they were."""
        daemon = self.daemon(SESP).start()
        first = self.connect(daemon)
        self.ask(first, "$0")
        said = self.reload(daemon, f"[limits]\nconnections_max = 1\nline_bytes_max = 100\n{SESP}")
        self.assertIn("limits.connections_max is 1 now, was 10000", said)
        self.assertIn("limits.line_bytes_max is 100 now, was 1048576", said)
        self.assertEqual(self.connect(daemon).recv(1), b"")
        self.assertEqual(self.ask(first, "&")[0][0], "+")
        self.reload(daemon, f"[limits]\nline_bytes_max = 100\n{SESP}")
        self.assertEqual(self.ask(self.connect(daemon), "x" * 200), ["-TooLong"])

    def test_retention(self) -> None:
        """Rules of retention are in force."""
        daemon = self.daemon(SESP).start()
        connection = self.connect(daemon)
        self.ask(connection, "#a")
        said = self.reload(daemon, f'{SESP}[[retention]]\npattern = "a*"\nrecords_max = 5\n')
        self.assertIn("retention is changed: 1 rules, was 0", said)
        self.assertEqual(json.loads(self.ask(connection, "?a")[0][1:])["retention"]["records_max"], 5)

    def test_level(self) -> None:
        """The log says more, or less."""
        daemon = self.daemon(SESP).start()
        connection = self.connect(daemon)
        said = self.reload(daemon, f'[log]\nlevel = "debug"\n{SESP}{rule("user:0")}')
        self.assertIn("log.level is debug now, was info", said)
        self.assertEqual(self.ask(connection, "@a"), ["-NotAllowed"])
        daemon.wait_for_line("may not: a, not_allowed")

    def test_restart(self) -> None:
        """What can't change is named, and the rest changes all the same."""
        daemon = self.daemon(SESP).start()
        said = self.reload(
            daemon,
            f'[log]\nformat = "json"\n[store]\ncommit_ms = 7\n[limits]\nframe_seconds_max = 7.0\n'
            f'[sesp]\nendpoint = "off"\n[smq]\nendpoint = "{LOOPBACK}"\nqueue = "other"\n',
        )
        for key in ("log.format", "store.commit_ms", "sesp.endpoint", "smq.queue"):
            self.assertIn(f"{key} has changed in the file, and needs a restart", said)
        self.assertIn("limits.frame_seconds_max is 7.0 now, was 30.0", said)
        self.assertEqual(self.ask(self.connect(daemon), "$0"), ["+"])

    def test_wrong(self) -> None:
        """A file with a mistake changes nothing, not even what is right in it."""
        daemon = self.daemon(SESP + rule("anyone")).start()
        connection = self.connect(daemon)
        for text, reason in (
            ("[limits]\nconnections_max = 0\n" + SESP, "limits.connections_max: 0 is below the least value of 1"),
            ("nonsense", "not valid TOML"),
            (SESP + rule("nobody"), 'access[1].who: expected "cert:NAME"'),
            (SESP + rule("anyone", '["raed"]'), "access[1].allow: expected one of read, write, create, admin"),
        ):
            said = self.reload(daemon, text, "nothing is changed")
            self.assertIn(reason, said)
            self.assertEqual(self.ask(connection, "&")[0][0], "+")
        self.config.unlink()
        os.kill(daemon.pid, signal.SIGHUP)
        daemon.wait_for_line("No such file or directory")
        self.assertEqual(daemon.terminate(), 0, daemon.output)

    def test_last_rule(self) -> None:
        """The last rule can't go where only rules protect a listener, unless that is meant."""
        anywhere = '[sesp]\nendpoint = "tcp:0"\n'
        daemon = self.daemon(anywhere + rule("user:0")).start()
        connection = self.connect(daemon)
        self.assertIn("would be open to everybody", self.reload(daemon, anywhere, "nothing is changed"))
        self.assertEqual(self.ask(connection, "#a"), ["-NotAllowed"])
        self.reload(daemon, f"insecure = true\n{anywhere}")
        self.assertEqual(self.ask(connection, "#a"), ["+"])

    def test_dashboard(self) -> None:
        """Nor can `insecure` go where it is all that lets the dashboard be open, unless a rule comes instead."""
        anywhere = '[http]\nendpoint = "tcp:0"\n' + SESP
        daemon = self.daemon(f"insecure = true\n{anywhere}").start()
        self.assertIn("would be open to everybody", self.reload(daemon, anywhere, "nothing is changed"))
        self.reload(daemon, anywhere + rule("user:0"))

    def test_without_file(self) -> None:
        """Without a file there is nothing to change, and nothing ends."""
        daemon = Daemon(str(self.directory))
        self.addCleanup(daemon.close)
        daemon.start()
        os.kill(daemon.pid, signal.SIGHUP)
        daemon.wait_for_line(RELOADED)
        self.assertEqual(daemon.terminate(), 0, daemon.output)

    def test_command_line(self) -> None:
        """What the command line says still wins."""
        daemon = self.daemon(SESP, "--log-level", "info").start()
        self.reload(daemon, f'[log]\nlevel = "critical"\n{SESP}')
        self.assertNotIn("log.level", "\n".join(daemon.log))
