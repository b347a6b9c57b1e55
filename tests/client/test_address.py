"""Addresses of daemons, as text and parsed."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from streamd.client.address import TcpAddress, TlsAddress, UnixAddress, parse_address


class AddressTests(SynchronousTestCase):
    def test_each(self) -> None:
        """Every form of an address, and what is none."""
        for text, found in (
            ("localhost:4840", TcpAddress("localhost", 4840)),
            ("127.0.0.1:1", TcpAddress("127.0.0.1", 1)),
            ("[::1]:65535", TcpAddress("::1", 65535)),
            ("unix:/run/streamd/sesp.sock", UnixAddress("/run/streamd/sesp.sock")),
            ("unix:a:b", UnixAddress("a:b")),
            ("tls:localhost:4840", TlsAddress("localhost", 4840)),
            ("tls:[::1]:1:ca=/a:cert=/b c:key=/d=e", TlsAddress("::1", 1, "/a", "/b c", "/d=e")),
        ):
            self.assertEqual(parse_address(text), found)
            self.assertEqual(str(found), text)
        for text in ("", "host", "host:", ":80", "host:0", "host:65536", "host:x", "::1:80", "host:-1", "unix:", "h:²"):
            self.assertRaises(ValueError, parse_address, text)
        for end in ("", "h", "h:1:key=/k", "h:1:ca=", "h:1:ca=/a:ca=/b", "h:1:x=/a", "::1:1", "h:1:/a"):
            self.assertRaises(ValueError, parse_address, f"tls:{end}")
