"""What is installed is what is needed: the wheel, in an environment with nothing of this checkout in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

from twisted.trial.unittest import SynchronousTestCase

from streamd import __version__
from streamd.plugin import found_protocols
from tests.rigs.daemon import CHECKOUT

_SOURCES = (
    "setup.py", "pyproject.toml", "MANIFEST.in", "Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md",
    "SECURITY.md", "LICENSE", "streamd", "pyspark_streamd", "twisted", "tests", "benchmarks", "docs", "etc", "man",
    "packaging",
)  # fmt: skip


class WheelTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).resolve()
        self.directory.mkdir()

    def run_in(self, directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
        """A command that knows of no path to this checkout."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            command, cwd=directory, env=inherited, capture_output=True, text=True, timeout=300, check=False
        )

    def build(self) -> Path:
        """Build both distributions from a copy: setuptools leaves its things where it builds."""
        source = self.directory / "source"
        source.mkdir()
        leave = shutil.ignore_patterns("__pycache__", "*.egg-info", "dropin.cache")
        for name in _SOURCES:
            if (CHECKOUT / name).is_dir():
                shutil.copytree(CHECKOUT / name, source / name, ignore=leave)
            elif (CHECKOUT / name).exists():
                shutil.copy(CHECKOUT / name, source / name)
        made = self.directory / "dist"
        # Without isolation: the environment of the tests has setuptools, and nothing has to be downloaded.
        ended = self.run_in(
            source, sys.executable, "-m", "build", "--no-isolation", "--wheel", "--sdist", "--outdir", str(made)
        )
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return made

    def install(self, wheel: Path) -> Path:
        """Install it into an empty environment. Only its dependencies are borrowed, from the tests' environment."""
        home = self.directory / "environment"
        venv.create(home, with_pip=False)
        python = home / "bin" / "python"
        ended = self.run_in(
            *(self.directory, sys.executable, "-m", "pip", "--python", str(python), "install"),
            *("--quiet", "--no-deps", "--no-index", str(wheel)),
        )
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        # Not by a .pth file's own rules: those would read the .pth files there, and with them an editable install.
        site = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
        borrowed = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
        (site / "borrowed.pth").write_text("".join(f"{path}\n" for path in borrowed))
        return python

    def test_wheel(self) -> None:
        """The wheel holds package and plugin and nothing that is Twisted's; installed, twistd knows streamd."""
        made = self.build()
        (wheel,) = made.glob("*.whl")
        self.assertEqual(wheel.name, f"streamd_log-{__version__}-py3-none-any.whl")
        names = ZipFile(wheel).namelist()
        self.assertEqual([name for name in names if name.startswith("twisted/")], ["twisted/plugins/streamd_plugin.py"])
        tops = {name.partition("/")[0] for name in names}
        made_of = [f"streamd_log-{__version__}.{each}" for each in ("data", "dist-info")]
        self.assertEqual(tops, {"streamd", "pyspark_streamd", "twisted", *made_of})
        modules = {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "streamd").rglob("*.py")}
        static = {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "streamd" / "http" / "static").iterdir()}
        self.assertEqual(
            {name for name in names if name.startswith("streamd/")},
            {*modules, *static, "streamd/py.typed", "streamd/spark/log4j2.properties"},
        )
        for page in ("man1/streamctl.1", "man8/streamd.8", "man5/streamd.toml.5"):
            self.assertIn(f"streamd_log-{__version__}.data/data/share/man/{page}", names)
        self.check_sdist(made)
        python = self.install(wheel)
        self.check_installed(python)

    def check_sdist(self, made: Path) -> None:
        """The source distribution can be built and tested from: it has what the tests read."""
        (sdist,) = made.glob("*.tar.gz")
        with tarfile.open(sdist) as file:
            names = {name.partition("/")[2] for name in file.getnames()}
        wanted = {"LICENSE", "Makefile", "README.md", "etc/streamd.toml", "man/streamd.8", "man/streamd.toml.5"}
        wanted |= {"etc/systemd/streamd.service", "etc/systemd/streamd.socket", "packaging/install", "packaging/try.py"}
        wanted |= {"packaging/deb", "packaging/debian/control", "packaging/debian/rules"}
        wanted |= {"etc/prometheus/streamd.rules.yml", "etc/grafana/streamd.json", "streamd/http/static/index.html"}
        wanted |= {"man/streamctl.1", "etc/pipelines/sessions.toml", "etc/systemd/streamd-pipeline@.service"}
        wanted |= {"man/streamctl.1", "etc/completion/streamctl.bash", "etc/completion/_streamctl"}
        self.assertEqual(wanted - names, set())
        self.assertIn("tests/project/test_wheel.py", names)
        self.assertIn("twisted/plugins/streamd_plugin.py", names)

    def check_installed(self, python: Path) -> None:
        where = self.run_in(self.directory, str(python), "-c", "import streamd; print(streamd.__file__)").stdout
        self.assertTrue(Path(where).is_relative_to(self.directory / "environment"), where)
        script = "import sys; sys.argv[0] = 'twistd'; from twisted.scripts.twistd import run; run()"
        ended = self.run_in(self.directory, str(python), "-c", script, "streamd", "--help")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        for protocol in found_protocols():
            self.assertIn(f"--{protocol.name}=", ended.stdout)
        ended = self.run_in(self.directory, str(python.parent / "streamctl"), "--version")
        self.assertEqual((ended.returncode, ended.stdout), (0, f"streamctl {__version__}\n"), ended.stderr)
        # The page of twistd's own lists it too.
        self.assertIn("streamd", self.run_in(self.directory, str(python), "-c", script, "--help").stdout)
