"""The documents tell what is: man pages, the example file and the README against the program."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, fields
from itertools import pairwise
from typing import Any

from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from streamd.config import DATA_DIR, Overrides, load
from streamd.plugin import found_protocols
from streamd.settings import AccessRule, GroupRule, Limits, LogSettings, RetentionRule, StoreSettings
from streamd.store.disk import Disk
from streamd.store.journal.frame import Kind
from streamd.store.packs.catalog import FILE_NAME, Catalog
from streamd.tap import Options
from tests.rigs.daemon import CHECKOUT, Daemon

SECTIONS: dict[str, Any] = {"log": LogSettings(), "store": StoreSettings(), "limits": Limits()}

# Macros of mdoc(7) that the pages may use.
MACROS = frozenset(
    re.findall(
        r"\w+",
        "Ar Bd Bl Cm Dd Dl Dq Dt Dv Ed El Em Er Ev Ex Fl Ic It Li Nd Nm No Ns Op Os Pa Pp Pq Ql Qq Sh Sq Ss Sx Sy Xr",
    )
)

# The keys of a rule of access that have to be there, as the example has them.
_WITHOUT_DEFAULT: dict[str, Any] = {"who": "cert:shop", "allow": ["read", "write"]}

ACCESS = {"topics": "[ Ns Qq * ]", "groups": [], "topics_max": 0, "topic_bytes_max": 0}
ACCESS |= {"messages_per_second_max": 0.0, "bytes_per_second_max": 0.0}

GROUPS = {**asdict(GroupRule()), "retry_seconds": []}
RULE = {each.name: getattr(RetentionRule(), each.name) for each in fields(RetentionRule)}


def defaults() -> dict[str, Any]:
    """All settings with their defaults, in the shape of the file."""
    wanted: dict[str, Any] = {"data_dir": DATA_DIR, "insecure": False}
    for name, settings in SECTIONS.items():
        wanted[name] = {each.name: getattr(settings, each.name) for each in fields(settings)}
    for protocol in ours():
        settings = protocol.configure({})
        own = {} if settings is None else {each.name: getattr(settings, each.name) for each in fields(settings)}
        wanted[protocol.name] = {"endpoint": protocol.default, **own}
    return wanted


def ours() -> list[Any]:
    """The protocols of this package; the machine may have others installed."""
    return [each for each in found_protocols() if getattr(each, "module", "").startswith("streamd.")]


def page(name: str) -> str:
    return (CHECKOUT / "man" / name).read_text(encoding="utf-8")


class ExampleTests(SynchronousTestCase):
    def test_complete(self) -> None:
        """The example names every setting there is, and each has its default there."""
        with open(CHECKOUT / "etc" / "streamd.toml", "rb") as file:
            self.assertEqual(tomllib.load(file), defaults())

    def test_loads(self) -> None:
        """It is a configuration, the same as none."""
        reactor = MemoryReactorClock()
        read = load(str(CHECKOUT / "etc" / "streamd.toml"), Overrides(), ours(), reactor)
        self.assertEqual(read, load(None, Overrides(), ours(), reactor))

    def test_retention(self) -> None:
        """The rule in its comments has every key of a rule, with its default and a comment above it."""
        text = (CHECKOUT / "etc" / "streamd.toml").read_text(encoding="utf-8")
        rule, example = re.findall(r"((?:^#   .*\n)+)", text, re.MULTILINE)[:2]
        lines = [line.removeprefix("#   ") for line in rule.splitlines()]
        self.assertEqual(tomllib.loads("\n".join(lines)), {"retention": [RULE]})
        for before, line in pairwise(lines):
            if " = " in line:
                self.assertTrue(before.startswith("#"), line)
        path = self.mktemp()
        with open(path, "w", encoding="utf-8") as file:
            file.write(example.replace("#   ", ""))
        (read,) = load(path, Overrides(), ours(), MemoryReactorClock()).retention
        self.assertEqual(read.pattern, "metrics.*")

    def test_groups(self) -> None:
        """So has the rule of groups."""
        text = (CHECKOUT / "etc" / "streamd.toml").read_text(encoding="utf-8")
        rule = re.findall(r"((?:^#   .*\n)+)", text, re.MULTILINE)[2]
        (stated,) = tomllib.loads(rule.replace("#   ", ""))["groups"]
        self.assertEqual({**stated, "retry_seconds": tuple(stated["retry_seconds"])}, asdict(GroupRule()))

    def test_access(self) -> None:
        """So has the rule of access, but for the two keys that have none; the rules of its example can be read."""
        text = (CHECKOUT / "etc" / "streamd.toml").read_text(encoding="utf-8")
        rule, example = re.findall(r"((?:^#   .*\n)+)", text, re.MULTILINE)[3:5]
        (stated,) = tomllib.loads(rule.replace("#   ", ""))["access"]
        defaults = {each.name: getattr(AccessRule(), each.name) for each in fields(AccessRule)}
        self.assertEqual(list(stated), list(defaults))
        lists = {name: tuple(stated[name]) for name in ("topics", "groups")}
        self.assertEqual({**stated, **lists}, {**defaults, **_WITHOUT_DEFAULT})
        path = self.mktemp()
        with open(path, "w", encoding="utf-8") as file:
            file.write(example.replace("#   ", ""))
        read = load(path, Overrides(), ours(), MemoryReactorClock()).access
        self.assertEqual([each.who for each in read], ["user:root", "net:10.0.0.0/8"])

    def test_commented(self) -> None:
        """Each key has a comment above it."""
        lines = (CHECKOUT / "etc" / "streamd.toml").read_text(encoding="utf-8").splitlines()
        for before, line in pairwise(lines):
            if re.match(r"\w+ = ", line) and not line.startswith("endpoint"):
                self.assertTrue(before.startswith("#"), line)


class ManualTests(SynchronousTestCase):
    def test_options(self) -> None:
        """streamd(8) has an entry for each option and for no other, and names it in the synopsis."""
        options = Options()
        installed = {each.name for each in found_protocols()} - {each.name for each in ours()}
        real = {name.rstrip("=") for name in options.longOpt} - installed
        entries = re.findall(r"^\.It Fl Fl ([\w-]+)", page("streamd.8"), re.MULTILINE)
        self.assertEqual(sorted(entries), sorted(real))
        synopsis = page("streamd.8").partition(".Sh DESCRIPTION")[0]
        self.assertEqual(set(re.findall(r"Fl Fl ([\w-]+)", synopsis)), real)

    def test_option_defaults(self) -> None:
        """The entry of each option of a service has its endpoint."""
        for protocol in ours():
            entry = page("streamd.8").partition(f".It Fl Fl {protocol.name} ")[2].partition("\n.It ")[0]
            self.assertIn(protocol.default, entry)

    def test_keys(self) -> None:
        """streamd.toml(5) has each key with its default under its table, and no others."""
        self.assertEqual(list(self.keys()), list(self.wanted()))

    def keys(self) -> Iterator[tuple[str, str, str]]:
        """(table, key, value) of the page, in its order."""
        table = ""
        for line in page("streamd.toml.5").splitlines():
            if found := re.match(r"\.Ss \[+(\w+)\]", line):
                table = found[1]
            elif found := re.match(r"\.It Ic (\w+) No = (?:Qq ?)?(.*)", line):
                yield table, found[1], found[2]

    def wanted(self) -> Iterator[tuple[str, str, str]]:
        tables = defaults()
        # A file without rules has no such table; the page has one all the same, behind our own tables.
        protocols = {each.name: tables.pop(each.name) for each in ours()}
        for name, value in {**tables, "retention": RULE, "groups": GROUPS, "access": ACCESS, **protocols}.items():
            for key, inner in value.items() if isinstance(value, dict) else [(name, value)]:
                text = str(inner).lower() if isinstance(inner, bool) else str(inner)
                yield (name if isinstance(value, dict) else ""), key, text

    def test_least(self) -> None:
        """Where a setting has a least value above 0, its entry says so."""
        for settings in (*SECTIONS.values(), RetentionRule()):
            for each in fields(settings):
                least = each.metadata["least"]
                entry = page("streamd.toml.5").partition(f".It Ic {each.name} ")[2].partition("\n.It Ic")[0]
                if least:
                    self.assertIn(f"At least {least}.", entry, each.name)

    def test_formatted(self) -> None:
        """All pages are free of what the formatter warns of; without one, they have only macros that there are."""
        groff = shutil.which("groff")
        for name in ("streamctl.1", "streamd.8", "streamd.toml.5"):
            used = set(re.findall(r"^\.(\w+)", page(name), re.MULTILINE))
            self.assertLessEqual(used, MACROS)
            if groff is not None:
                command = [groff, "-mandoc", "-Tutf8", "-ww", "-z", str(CHECKOUT / "man" / name)]
                ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
                self.assertEqual(ended.stderr, "")


class ReadmeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.text = (CHECKOUT / "README.md").read_text(encoding="utf-8")

    def block(self, language: str) -> list[str]:
        found = re.search(rf"^```{language}\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)
        assert found is not None
        return found[1].splitlines()

    def test_conversation(self) -> None:
        """The conversation, pasted as telnet sends it, is answered as the README says."""
        daemon = Daemon(self.mktemp())
        self.addCleanup(daemon.close)
        daemon.start()
        with daemon.connect() as connection, connection.makefile("rwb") as stream:
            stream.write("".join(f"{line}\r\n" for line in self.block("sesp")).encode())
            stream.flush()
            expected = self.block("sesp-replies")
            answers = [stream.readline().decode() for _ in expected]
            self.assertEqual(answers, [f"{line}\n" for line in expected], daemon.output)

    def test_port(self) -> None:
        """It names the port that is the default."""
        (sesp,) = (each for each in ours() if each.name == "sesp")
        self.assertIn(f"telnet 127.0.0.1 {sesp.default.split(':')[1]}", self.text)

    def test_links(self) -> None:
        """What it points to in this repository is there."""
        for target in re.findall(r"\]\(([^)]+)\)", self.text):
            if "://" not in target:
                self.assertTrue((CHECKOUT / target).exists(), target)

    def test_targets(self) -> None:
        """Each make target that it names exists."""
        makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
        for target in set(re.findall(r"\bmake (\w+)", self.text)) - {"a"}:
            self.assertRegex(makefile, rf"(?m)^{target}:")


class PagesTests(SynchronousTestCase):
    def test_links(self) -> None:
        """What a page points to in this repository is there, headings too."""
        for path in (CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").rglob("*.md"))):
            for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
                if "://" not in target:
                    name, _, heading = target.partition("#")
                    pointed = path.parent / name if name else path
                    self.assertTrue(pointed.exists(), f"{path}: {target}")
                    if heading:
                        titles = re.findall(r"^#+ (.*)", pointed.read_text(encoding="utf-8"), re.MULTILINE)
                        anchors = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
                        self.assertIn(heading, anchors, path)


class NameTests(SynchronousTestCase):
    def test_other_project(self) -> None:
        """No text tells anybody to install "streamd" by that name: on PyPI it is another project."""
        wrong = re.compile(r"pip install ['\"]?streamd(?![-\w])|\bstreamd\[[a-z,]+\]")
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
        # A source distribution has no list of tracked files, and holds nothing else.
        names = listed.stdout.split("\0") if listed.returncode == 0 else [str(each) for each in CHECKOUT.rglob("*")]
        for path in (CHECKOUT / name for name in names if name):
            if path.is_file():
                self.assertNotRegex(path.read_text(encoding="utf-8", errors="replace"), wrong, path)


class FormatTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.text = (CHECKOUT / "docs" / "format.md").read_text(encoding="utf-8")

    def test_kinds(self) -> None:
        """The page has a row for each kind of entry, and for no other."""
        rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", self.text, re.MULTILINE)
        self.assertEqual(rows, [(str(kind.value), kind.name) for kind in Kind])

    def test_catalog(self) -> None:
        """Each table, each column and each key of the catalog is told."""
        told = self.text.partition("\n## Catalog\n")[2].partition("\n## ")[0]
        path = self.mktemp()
        os.mkdir(path)
        Catalog(Disk(), path, bytes(16), writable=True).close()
        with closing(sqlite3.connect(os.path.join(path, FILE_NAME))) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            self.assertEqual(set(re.findall(r"\*\*(\w+)\*\*", told)), set(tables))
            for table in set(tables) - {"meta"}:
                entry = told.partition(f"**{table}**")[2]
                for _, column, *_ in database.execute(f"PRAGMA table_info({table})"):
                    self.assertIn(f"`{column}`", entry)
            for (key,) in database.execute("SELECT key FROM meta"):
                self.assertIn(f"| `{key}` |", told)
