"""`streamctl config check`."""

from __future__ import annotations

from pathlib import Path

from tests.rigs.cli.case import DaemonCase
from tests.rigs.daemon import CHECKOUT

ANYONE = "[[access]]\nwho = 'anyone'\nallow = ['read']\n"


class ConfigTests(DaemonCase):
    def test_check(self) -> None:
        """The example is good, and what counts is told; a wrong value is named with file and key."""
        example = str(CHECKOUT / "etc" / "streamd.toml")
        self.assertIn(f"{example}: good\ndata in streamd-data\n", self.ctl("config", "check", example).text)
        told = self.ctl("config", "check", example, "--json").json
        self.assertEqual((told["store"]["sync"], told["data_dir"]), ("always", "streamd-data"))
        wrong = Path(self.path())
        wrong.write_text("[store]\nsync = 'sometimes'\n")
        self.refused(2, f"{wrong}: line 2: store.sync: expected one of", "config", "check", str(wrong))
        wrong.write_text("[sesp]\nendpoint = 'tcp:99999'\n")
        self.refused(2, "port 99999", "config", "check", str(wrong))
        rule = "[[retention]]\nbytes_max = 1\n"
        for text, told in (
            ("datadir = 'x'\n", "line 1: datadir: no such key; did you mean data_dir?"),
            ("\n[stor] # here\n", "line 2: stor: no such key; did you mean store?"),
            (f"{rule}{rule}bytes_mx = 1\n", "line 5: retention[2].bytes_mx: no such key; did you mean bytes_max?"),
            ("[sesp]\nendpoint = 'tcp:1'\n", "line 2: sesp.endpoint: it would be open to everybody"),
            ("[sesp]\nendpoint = 'tcp:4841:interface=127.0.0.1'\n", "sesp has port 4841 already"),
            ("[store]\nsync = always\n", "line 2, column 8"),
        ):
            wrong.write_text(text)
            self.refused(2, told, "config", "check", str(wrong))
        for text in ("insecure = true\n[sesp]\nendpoint = 'tcp:1'\n", f"[http]\nendpoint = 'tcp:1'\n{ANYONE}"):
            wrong.write_text(text)
            self.ctl("config", "check", str(wrong))

    def test_unmatched_rules(self) -> None:
        """A rule that nobody can match is worth a warning with its line, and is no error."""
        file = Path(self.path())
        rules = [("cert:shop", "client certificates"), ("user:0", "unix socket"), ("net:10.0.0.0/8", "reached from")]
        file.write_text("".join(f"[[access]]\nallow = ['read']\nwho = '{who}'\n" for who, _ in rules) + ANYONE)
        ended = self.run_ctl("config", "check", str(file))
        self.assertEqual(ended.status, 0)
        self.assertIn(": good\n", ended.text)
        told = ended.err.splitlines()
        self.assertEqual(len(told), 3)
        for number, (_, reason) in enumerate(rules, 1):
            start = f"streamctl: warning: {file}: line {3 * number}: access[{number}].who: nobody can match this rule: "
            self.assertTrue(told[number - 1].startswith(start), told)
            self.assertIn(reason, told[number - 1])
        told = [
            f"streamctl: warning: {each}"
            for each in self.run_ctl("config", "check", str(file), "--json").json["warnings"]
        ]
        self.assertEqual(told, ended.err.splitlines())
