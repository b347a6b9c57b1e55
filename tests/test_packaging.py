"""The install script, run for real below a directory of its own: what it leaves there, and that it runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from streamd import __version__
from streamd.plugin import found_protocols
from tests.confined import settings, systemd_analyze
from tests.daemon import CHECKOUT, READY

INSTALL = CHECKOUT / "packaging" / "install"
INSTALL_SECONDS_MAX = 600.0


class InstallTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.mktemp()).resolve()
        self.releases = self.root / "opt" / "streamd"
        self.config = self.root / "etc" / "streamd" / "streamd.toml"
        # What the tests themselves run with is none of its business.
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        self.environment["PIP_NO_COMPILE"] = "1"  # nobody runs it twice

    def install(self, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run it, with everything below the test's directory."""
        return subprocess.run(
            [str(INSTALL), "--root", str(self.root), "--python", sys.executable, *options],
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS_MAX,
            check=False,
        )

    def installed(self) -> Path:
        """Install it, which has to go well. Returns the release that is current."""
        ended = self.install()
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        current = (self.releases / "current").resolve()
        self.assertEqual(ended.stdout, f"installed streamd {__version__} in /opt/streamd/{current.name}\n")
        return current

    def names(self) -> set[str]:
        return {each.name for each in self.releases.iterdir()}

    def test_install(self) -> None:
        """From nothing to a daemon that runs; then an upgrade, and an upgrade that fails."""
        # An administrator's habit, which must not lock the service out.
        self.addCleanup(os.umask, os.umask(0o077))
        first = self.installed()
        self.check_files()
        self.check_units()
        self.check_runs(first)
        self.check_upgrade(first)

    def check_files(self) -> None:
        """The settings are the example's but for the place of the store; everybody can read what was installed."""
        example = tomllib.loads((CHECKOUT / "etc" / "streamd.toml").read_text(encoding="utf-8"))
        self.assertEqual(tomllib.loads(self.config.read_text()), {**example, "data_dir": "/var/lib/streamd"})
        for page in (CHECKOUT / "man").iterdir():
            place = self.root / "usr/local/share/man" / f"man{page.suffix[1:]}" / page.name
            self.assertEqual(place.read_bytes(), page.read_bytes())
        for directory, _, files in os.walk(self.root):
            for path in (directory, *(os.path.join(directory, name) for name in files)):
                self.assertTrue(os.stat(path).st_mode & 0o004, path)

    def check_units(self) -> None:
        """systemd has nothing to say against the units, and what they start and read is there."""
        service = self.root / "etc/systemd/system/streamd.service"
        (command,) = settings(service)["ExecStart"]
        program, *arguments = command.split()
        self.assertTrue(os.access(self.root / program[1:], os.X_OK), program)
        self.assertEqual(arguments[-2:], ["--config", f"/{self.config.relative_to(self.root)}"])
        # verify looks for what is started below the real root alone.
        copies = self.root / "copies"
        copies.mkdir()
        for unit in service.parent.iterdir():
            (copies / unit.name).write_text(unit.read_text().replace("=/opt/", f"={self.root}/opt/"))
        systemd_analyze("verify", "--man=no", "--recursive-errors=no", *map(str, sorted(copies.iterdir())))

    def check_runs(self, release: Path) -> None:
        """The installed daemon is ready with the installed settings and stops in order."""
        options = ["--config", str(self.config), "--data-dir", str(self.root / "data")]
        for protocol in found_protocols():
            kind = protocol.default.partition(":")[0]
            options += [f"--{protocol.name}", f"{kind}:0:interface=127.0.0.1"]
        # The list of plugins was made by the install: who runs the service may not write it.
        self.assertTrue(list(release.glob("lib/python*/site-packages/twisted/plugins/dropin.cache")))
        with subprocess.Popen(
            [str(self.releases / "current/bin/twistd"), "-n", "--pidfile=", "streamd", *options],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as daemon:
            self.addCleanup(daemon.kill)
            assert daemon.stdout is not None
            said = []
            for line in daemon.stdout:
                said.append(line)
                if READY in line:
                    daemon.send_signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0, "".join(said))

    def check_upgrade(self, first: Path) -> None:
        """An upgrade keeps the settings and the release before it, and no older one; a failure changes nothing."""
        self.config.write_text("# mine\n")
        (self.releases / "20200101T000000Z-1").mkdir()
        second = self.installed()
        self.assertEqual(self.names(), {"current", first.name, second.name})
        self.assertEqual(self.config.read_text(), "# mine\n")
        ended = self.install(PIP_NO_INDEX="1", PIP_FIND_LINKS="/nowhere", PIP_EXTRA_INDEX_URL="")
        self.assertNotEqual(ended.returncode, 0)
        self.assertEqual(self.names(), {"current", first.name, second.name})
        self.assertEqual((self.releases / "current").resolve(), second)

    def test_refused(self) -> None:
        """What is wrong is told in one line at the end, before anything is made."""
        for options, said in (
            (["--nonsense"], "packaging/install: no such option: --nonsense"),
            (["--python"], "packaging/install: --python wants a value"),
            (["--python", "false"], "packaging/install: false is not Python 3.11 or later"),
        ):
            ended = self.install(*options)
            self.assertEqual(ended.returncode, 1)
            self.assertEqual(ended.stderr.splitlines()[-1], said)
            self.assertFalse(self.root.exists())

    def test_help(self) -> None:
        """Its help has each option that it takes."""
        taken = re.findall(r"^ +(--[\w-]+)\)", INSTALL.read_text(encoding="utf-8"), re.MULTILINE)
        shown = self.install("--help").stdout
        self.assertEqual(set(re.findall(r"^  (--[\w-]+)", shown, re.MULTILINE)), set(taken) - {"--help"})
