"""Completions for shells offer every command and every option."""

from __future__ import annotations

import shutil
import subprocess

from twisted.trial.unittest import SynchronousTestCase

from streamd.cli import parser
from streamd.cli.completion import FILES, completion
from tests.rigs.cli.parsers import commands, options
from tests.rigs.daemon import CHECKOUT

COMPLETION = CHECKOUT / "etc" / "completion"


class CompletionTests(SynchronousTestCase):
    def test_generated(self) -> None:
        """What is there is what the parser gives: after a change, `make completion`."""
        for shell, name in FILES.items():
            self.assertEqual((COMPLETION / name).read_text(encoding="utf-8"), completion(shell), name)
        self.assertEqual({path.name for path in COMPLETION.iterdir()}, set(FILES.values()))

    def test_complete(self) -> None:
        """Each command and each of its options is in the completion of each shell."""
        for name in FILES.values():
            text = (COMPLETION / name).read_text(encoding="utf-8")
            for words, command in commands(parser()):
                self.assertIn(words.split()[-1], text)
                for option in options(command):
                    self.assertIn(
                        option.removeprefix("--") if name.endswith(".fish") else option, text, f"{name} {words}"
                    )

    def test_bash(self) -> None:
        """In bash: commands, options of a command, choices of an option."""
        bash = shutil.which("bash")
        assert bash is not None
        for words, found in (
            ("ta", "tail"),
            ("tail --fol", "--follow"),
            ("config ch", "check"),
            ("export --format p", "parquet"),
        ):
            count = len(words.split())
            script = (
                f"source {COMPLETION / 'streamctl.bash'}; COMP_WORDS=(streamctl {words}); COMP_CWORD={count}; "
                'COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}; _shtab_streamctl; echo "${COMPREPLY[*]}"'
            )
            ended = subprocess.run([bash, "-c", script], capture_output=True, text=True, timeout=60, check=True)
            self.assertEqual(ended.stdout.strip(), found, ended.stderr)

    def test_others(self) -> None:
        """Where they are installed, zsh and fish can read theirs."""
        for shell, name in FILES.items():
            path = shutil.which(shell)
            if path is not None:
                subprocess.run([path, "-n", str(COMPLETION / name)], capture_output=True, timeout=60, check=True)
