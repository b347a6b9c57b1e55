"""The command line itself: help, man page and completions tell of the same commands and options."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from streamd.cli import parser
from streamd.cli.command import CommandError, size
from tests.rigs.cli.parsers import commands, options
from tests.rigs.cli.run import ctl, program
from tests.rigs.daemon import CHECKOUT


class ParserTests(SynchronousTestCase):
    def test_help(self) -> None:
        """Each command says what it is for, and each option too; all that print data can print JSON."""
        for name, command in commands(parser()):
            self.assertTrue(command.description, name)
            self.assertIn("--json", options(command), name)
            for action in command._actions:
                if action.option_strings:
                    self.assertTrue(action.help, f"{name} {action.option_strings}")
            ended = ctl(*name.split(), "--help")
            self.assertEqual(ended.status, 0)

    def test_quick(self) -> None:
        """Neither Twisted nor Spark nor the store is loaded to show help."""
        code = (
            "import sys; from streamd.cli import parser; parser().format_help(); "
            "print([name for name in sys.modules if name.split('.')[0] in ('twisted', 'pyspark', 'pyarrow', 'rich')])"
        )
        ended = subprocess.run(
            [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=True
        )
        self.assertEqual(ended.stdout, "[]\n")

    def test_usage(self) -> None:
        """A command line that is none exits with 2; the version is told."""
        strange = ((), ("fly",), ("seal", "a", "--fly"), ("info", "a", "--json", "b"))
        for wrong in (*strange, ("tail",), ("tail", "x", "--raw", "--json"), ("tail", "x", "-n", "-1")):
            self.assertEqual(ctl(*wrong).status, 2, wrong)
        self.assertRegex(ctl("--version").text, r"^streamctl \d+\.\d+")

    def test_program(self) -> None:
        """As a program: errors are one line, and a reader that leaves early is no reason to complain."""
        ended = program("topics", "--path", "/nowhere")
        self.assertEqual((ended.status, ended.err.count("\n")), (1, 1))
        ended = program("config", "check", str(CHECKOUT / "etc" / "streamd.toml"))
        self.assertEqual((ended.status, ended.err), (0, ""))

    def test_sizes(self) -> None:
        """Numbers of bytes, with and without a unit."""
        self.assertEqual([size(text) for text in ("1", "2k", "3M", "1g")], [1, 2048, 3 << 20, 1 << 30])
        for wrong in ("", "0", "-1", "1t", "k", "1.5m"):
            self.assertRaises(argparse.ArgumentTypeError, size, wrong)
        self.assertEqual(CommandError("text").status, 1)


class ManualTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.page = (CHECKOUT / "man" / "streamctl.1").read_text(encoding="utf-8")
        self.common = set(self.entries(self.page.partition(".Sh COMMON OPTIONS")[2].partition(".Sh COMMANDS")[0]))

    @staticmethod
    def entries(text: str) -> list[str]:
        """The options that have an entry."""
        return [f"--{name}" for name in re.findall(r"^\.It (?:Fl \w , )?Fl Fl ([\w-]+)", text, re.MULTILINE)]

    def test_commands(self) -> None:
        """Each command has its section, in the order of the help, and nothing else has one."""
        sections = re.findall(r"^\.Ss ([a-z ]+?)(?: (?:Op|Ar) .*)?$", self.page, re.MULTILINE)
        self.assertEqual(sections, [name for name, _ in commands(parser())])

    def test_options(self) -> None:
        """Each section has an entry for each option of its own; those that many have are told once."""
        for name, command in commands(parser()):
            section = re.split(rf"^\.Ss {name}\b.*$", self.page, flags=re.MULTILINE)[1]
            section = re.split(r"^\.S[sh] ", section, flags=re.MULTILINE)[0]
            self.assertEqual(sorted(self.entries(section)), sorted(options(command) - self.common), name)
        every = set[str]().union(*[options(command) for _, command in commands(parser())])
        self.assertLessEqual(self.common, every)
