"""TLS of clients: contexts of the files that an address names, and what is said of files that can't be used."""

from __future__ import annotations

import ssl
from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from twisted.trial.unittest import SynchronousTestCase

from streamd.client import ClientError
from streamd.client.address import parse_address
from streamd.client.target import Target
from streamd.client.tls import client_context, context_for
from tests.rigs.access.authority import Authority


class ContextTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).resolve()
        self.directory.mkdir()
        self.authority = Authority(self.directory)
        self.mine = self.authority.issue("mine")

    def test_address(self) -> None:
        """A context comes from the client's own settings, else from a TLS address; a plain address has none."""
        own = ssl.create_default_context()
        address = parse_address(f"tls:localhost:1:ca={self.authority.file}:cert={self.mine}")
        self.assertIs(context_for(Target(address, own)), own)
        made = context_for(Target(address))
        assert made is not None
        self.assertEqual(len(made.get_ca_certs()), 1)
        self.assertTrue(made.check_hostname)
        self.assertIsNone(context_for(Target(parse_address("localhost:1"))))

    def test_wrong_files(self) -> None:
        """A file that can't be used is named, with what is expected in it; nobody is asked for a password."""
        ca, mine, none = str(self.authority.file), str(self.mine), str(self.directory / "none")
        broken, locked = self.directory / "broken", self.directory / "locked"
        broken.write_text("nothing")
        key = load_pem_private_key(self.mine.read_bytes(), None)
        locked.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
        for files, said in (
            ((none, None, None), f"{none}: No such file or directory"),
            ((str(broken), None, None), f"{broken}: expected certificates of authorities in it"),
            ((ca, none, None), f"{none}: No such file or directory"),
            ((ca, ca, None), "expected a certificate in it, and its key in the same file"),
            ((ca, mine, ca), f"and its key in {ca}"),
            ((ca, mine, str(locked)), "the key has a password"),
        ):
            self.assertIn(said, str(self.assertRaises(ClientError, client_context, *files)))
