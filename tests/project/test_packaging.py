"""The install script, run for real below a directory of its own: what it leaves there, and that it runs.

Of the recipe for Debian's package that which can be looked at anywhere; packaging/try makes it and tries it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from streamd import __version__
from streamd.plugin import found_protocols
from tests.rigs.confined import settings, systemd_analyze
from tests.rigs.daemon import CHECKOUT, READY

INSTALL = CHECKOUT / "packaging" / "install"
DEB = CHECKOUT / "packaging" / "deb"
RECIPE = CHECKOUT / "packaging" / "debian"
UNITS = CHECKOUT / "etc" / "systemd"
# Where each shell looks for what others have installed.
COMPLETIONS = {
    "streamctl.bash": "bash-completion/completions",
    "_streamctl": "zsh/site-functions",
    "streamctl.fish": "fish/vendor_completions.d",
}
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
        self.check_removed()

    def check_files(self) -> None:
        """The settings are the example's but for the place of the store; everybody can read what was installed."""
        example = tomllib.loads((CHECKOUT / "etc" / "streamd.toml").read_text(encoding="utf-8"))
        self.assertEqual(tomllib.loads(self.config.read_text()), {**example, "data_dir": "/var/lib/streamd"})
        share = self.root / "usr/local/share"
        places = {page: share / "man" / f"man{page.suffix[1:]}" / page.name for page in (CHECKOUT / "man").iterdir()}
        for name, place in COMPLETIONS.items():
            places[CHECKOUT / "etc" / "completion" / name] = share / place / name
        for pipeline in (CHECKOUT / "etc" / "pipelines").glob("*.toml"):
            places[pipeline] = share / "doc/streamd/examples/pipelines" / pipeline.name
        for source, installed in places.items():
            self.assertEqual(installed.read_bytes(), source.read_bytes())
        self.assertTrue((self.root / "etc/streamd/pipelines").is_dir())
        for directory, _, files in os.walk(self.root):
            for path in (directory, *(os.path.join(directory, name) for name in files)):
                self.assertTrue(os.lstat(path).st_mode & 0o004, path)

    def check_units(self) -> None:
        """systemd has nothing to say against the units, and what they start and read is there."""
        units = self.root / "etc/systemd/system"
        self.assertEqual({unit.name for unit in units.iterdir()}, {unit.name for unit in UNITS.iterdir()})
        for unit in units.glob("*.service"):
            (command,) = settings(unit)["ExecStart"]
            program, *arguments = command.split()
            self.assertTrue(os.access(self.root / program[1:], os.X_OK), program)
            if unit.name == "streamd.service":
                self.assertEqual(arguments[-2:], ["--config", f"/{self.config.relative_to(self.root)}"])
        # verify looks for what is started below the real root alone.
        copies = self.root / "copies"
        copies.mkdir()
        for unit in units.iterdir():
            (copies / unit.name).write_text(unit.read_text().replace("=/opt/", f"={self.root}/opt/"))
        systemd_analyze("verify", "--man=no", "--recursive-errors=no", *map(str, sorted(copies.iterdir())))
        shutil.rmtree(copies)

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
        # streamctl, where everybody's shell looks for it, is the release's.
        link = os.readlink(self.root / "usr/local/bin/streamctl")
        said = [subprocess.check_output([str(self.root / link[1:]), "--version"], env=self.environment, text=True)]
        self.assertEqual(said, [f"streamctl {__version__}\n"])

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

    def check_removed(self) -> None:
        """Removed is all but the settings."""
        ended = self.install("--remove")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        left = [path for path in self.root.rglob("*") if not path.is_dir() and self.root / "data" not in path.parents]
        self.assertEqual(left, [self.config])

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


class ScriptTests(SynchronousTestCase):
    """The scripts and the recipe of Debian's package."""

    def test_help(self) -> None:
        """The help of each has each option that it takes."""
        for script in (INSTALL, DEB):
            taken = re.findall(r"^ +(--[\w-]+)\)", script.read_text(encoding="utf-8"), re.MULTILINE)
            shown = subprocess.check_output([str(script), "--help"], text=True)
            self.assertEqual(set(re.findall(r"^  (--[\w-]+)", shown, re.MULTILINE)), set(taken) - {"--help"})

    def test_refused(self) -> None:
        """What is wrong is told at the end, before anything is made."""
        for option, said in (("--nonsense", "no such option: --nonsense"), ("--revision", "--revision wants a value")):
            ended = subprocess.run([str(DEB), option], capture_output=True, text=True, check=False)
            self.assertEqual((ended.returncode, ended.stderr.splitlines()[-1]), (1, f"packaging/deb: {said}"))

    def test_shell(self) -> None:
        """A shell can read all of them; those of the package end on a failure, and debhelper adds to them."""
        scripts = [path for path in RECIPE.iterdir() if path.suffix in (".postinst", ".prerm", ".postrm")]
        self.assertTrue(scripts)
        for script in scripts:
            lines = script.read_text(encoding="utf-8").splitlines()
            self.assertEqual(lines[:2], ["#!/bin/sh", "set -e"], script)
            self.assertEqual(lines.count("#DEBHELPER#"), 1, script)
        for script in (INSTALL, DEB, CHECKOUT / "packaging" / "try", *scripts):
            ended = subprocess.run(["sh", "-n", str(script)], capture_output=True, text=True, check=False)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""), script)

    def test_files(self) -> None:
        """What the package takes from the source is there, and no unit, page, completion or example is left out."""
        taken = set()
        for kind in ("install", "manpages", "examples", "docs"):
            for line in (RECIPE / f"streamd.{kind}").read_text(encoding="utf-8").splitlines():
                pattern = line.split()[0]
                if not pattern.startswith("debian/"):  # made by the rules
                    found = set(CHECKOUT.glob(pattern))
                    self.assertTrue(found, pattern)
                    taken |= found
        for part in ("man", "docs", "etc/completion"):
            self.assertLessEqual(set((CHECKOUT / part).iterdir()), taken)
        rules = (RECIPE / "rules").read_text(encoding="utf-8")
        for unit in UNITS.iterdir():
            self.assertIn(unit.name, rules)
        named = taken | {CHECKOUT / "etc" / "streamd.toml", UNITS}
        self.assertLessEqual(set((CHECKOUT / "etc").iterdir()) - {CHECKOUT / "etc" / "completion"}, named)

    def test_places(self) -> None:
        """What the recipe changes in units and settings is there to be changed, each once."""
        for unit in UNITS.glob("*.service"):
            text = unit.read_text(encoding="utf-8")
            self.assertEqual(len(re.findall("^ExecStart=/opt/streamd/current/bin/", text, re.MULTILINE)), 1)
            self.assertEqual(text.count("/opt/"), 1)
        example = (CHECKOUT / "etc" / "streamd.toml").read_text(encoding="utf-8")
        self.assertEqual(len(re.findall("^data_dir = ", example, re.MULTILINE)), 1)

    def test_purge(self) -> None:
        """A purge removes each directory that systemd makes for the units; nothing else in the script removes."""
        made = set()
        for unit in UNITS.glob("*.service"):
            for key in ("StateDirectory", "CacheDirectory"):
                made |= {value.partition("/")[0] for value in settings(unit).get(key, [])}
        script = (RECIPE / "streamd.postrm").read_text(encoding="utf-8")
        purged = script.partition('if [ "$1" = purge ]; then\n')[2].partition("\nfi\n")[0]
        (names,) = re.findall(r"for name in (.*); do", purged)
        self.assertEqual(set(names.split()), made)
        self.assertNotIn("rm ", script.replace(purged, ""))
