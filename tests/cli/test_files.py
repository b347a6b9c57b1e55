"""The files of a store from the command line: verify, repair, backup, restore, config check."""

from __future__ import annotations

import os
from pathlib import Path

from streamd.cli import files
from tests.rigs.cli.case import DaemonCase
from tests.rigs.cli.run import ctl
from tests.rigs.daemon import Daemon


class BackupTests(DaemonCase):
    def test_round(self) -> None:
        """A backup of a running daemon, listed, checked, restored; the next one forgets it."""
        self.publish("kept", b"one", b"two")
        backup = self.path()
        taken = self.ctl("backup", backup, "--path", self.data, "--json").json
        self.assertEqual(taken["forgotten"], [])
        self.assertEqual(self.ctl("backup", backup, "--list", "--json").json[0]["snapshot"], taken["snapshot"])
        self.assertIn(taken["snapshot"], self.ctl("backup", backup, "--list").text)
        self.assertIn("sound", self.ctl("verify", "--backup", backup).text)
        restored = self.path()
        self.assertTrue(self.ctl("restore", backup, restored, "--json").json["sound"])
        self.assertEqual(self.ctl("tail", "kept", "--path", restored).text, "one\ntwo\n")
        self.refused(1, "not empty", "restore", backup, restored)
        self.refused(1, "no backup here", "restore", restored, self.path())
        again = self.ctl("backup", backup, "--path", self.data, "--keep", "1")
        self.assertIn(f"snapshot {taken['snapshot']} forgotten", again.text)
        self.assertEqual(len(self.ctl("backup", backup, "--list", "--json").json), 1)
        self.refused(1, "no store here", "backup", backup, "--path", "/nowhere")

    def test_damaged(self) -> None:
        """A damaged backup is found, and not restored."""
        self.publish("kept", b"three")
        backup = self.path()
        self.ctl("backup", backup, "--path", self.data)
        journal = max(Path(backup).glob("snapshots/*/journal/*.journal"))
        damage(journal, 70)
        ended = self.run_ctl("verify", "--backup", backup)
        self.assertEqual((ended.status, f"{journal.name}: not what was copied there" in ended.text), (1, True))
        self.refused(1, "Restore another snapshot", "restore", backup, self.path())


class PathTests(DaemonCase):
    def test_default(self) -> None:
        """Without --path the store is the one in the working directory, or else that of the system's service."""
        here = Path(self.path())
        here.mkdir()
        service = here / "service"
        service.symlink_to(Path(self.data).resolve())
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(here)
        self.patch(files, "_PATHS", (files._PATHS[0], str(service.absolute())))
        self.assertEqual(self.ctl("verify").text, f"{service.absolute()}: sound\n")
        Path("streamd-data").symlink_to(service)
        self.assertEqual(self.ctl("verify").text, "streamd-data: sound\n")
        service.unlink()
        Path("streamd-data").unlink()
        self.refused(1, "streamd-data: there is no store here", "backup", "elsewhere")


class RepairTests(DaemonCase):
    def test_running(self) -> None:
        """A store that a daemon has is verified, and not repaired."""
        self.assertEqual(self.ctl("verify", "--path", self.data, "--json").json["sound"], True)
        self.refused(1, "Stop it first", "repair", "--path", self.data)
        self.refused(1, "no store here", "repair", "--path", "/nowhere")
        self.refused(1, "No such file or directory", "verify", "--path", "/nowhere")
        self.refused(1, "no store here", "verify", "--path", "/etc")

    def test_repair(self) -> None:
        """Damage is found, told, and repaired on demand; the daemon starts again and has what is left."""
        home = self.path()
        daemon = Daemon(home)
        self.addCleanup(daemon.close)
        daemon.start()
        server = ("--server", f"127.0.0.1:{daemon.port('pravega')}")
        for number in range(3):
            self.assertEqual(ctl("publish", "t", "--create", *server, given=b"message %d\n" % number).status, 0)
        daemon.terminate()
        store = os.path.join(home, "data")
        whole = sorted(Path(store, "journal").glob("*.journal"))[0]
        # The payload of the last message.
        damage(whole, whole.read_bytes().rindex(b"message 2"))
        self.assertEqual(ctl("verify", "--path", store).status, 1)
        looked = ctl("repair", "--path", store)
        self.assertEqual(looked.status, 1)
        self.assertIn("the journal is cut at", looked.text)
        self.assertIn("--apply", looked.err)
        self.assertFalse(ctl("repair", "--path", store, "--json").json["applied"])
        done = ctl("repair", "--path", store, "--apply")
        self.assertEqual((done.status, done.err), (0, ""), done.text)
        self.assertIn("everything that was cut off is kept in", done.text)
        self.assertEqual(ctl("repair", "--path", store).text, f"{store}: nothing to repair\n")
        daemon.start()
        self.assertEqual(ctl("tail", "t", "--path", store).text, "message 0\nmessage 1\n")


def damage(path: Path, position: int) -> None:
    """One byte of a file is another."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
