"""Messages over HTTP: the laws of every protocol hold for it, too."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import quote

from twisted.trial.unittest import SynchronousTestCase

from streamd.access.permits import Access
from streamd.batch import Batch
from streamd.http.site import HttpSettings
from streamd.settings import AccessRule
from tests.rigs.daemon import DEADLINE_SECONDS, Daemon
from tests.rigs.http.case import Answer, SiteCase, parse, request
from tests.rigs.sesp_client import Sesp

NAMES = ("orders", "a b", "ä/ö?#%", "<script>", "x" * 255, "scope/stream/0")
LINES = "application/x-ndjson"


def values(answer: Answer) -> list[str]:
    """The messages of an answer."""
    return [json.loads(line)["value"] for line in answer.text.splitlines()]


class PublishTests(SiteCase):
    def test_names(self) -> None:
        """Whatever a topic may be called, it is published to and read by that name."""
        self.create(*NAMES)
        for name in NAMES:
            answer = self.ask(f"/topics/{quote(name, safe='')}", "POST", b"hello")
            self.assertEqual(json.loads(answer.body), {"topic": name, "offset": 0, "count": 1})
            self.assertEqual(values(self.ask(f"/topics/{quote(name, safe='')}")), ["hello"])
        self.assertEqual(values(self.ask("/topics/scope/stream/0")), ["hello"])

    def test_bytes(self) -> None:
        """A body is one message, byte for byte, and the largest one is as large as the limit says."""
        self.create("a")
        most = self.rig.limits.message_bytes_max
        for body in (b"", b"\0\xff\r\n", b"x\ny\n", b"z" * most):
            before = self.rig.store.find("a").number
            self.assertEqual(self.ask("/topics/a", "POST", body).status, 200)
            told = json.loads(self.ask(f"/topics/a?from={before}").body)
            if "value" in told:
                self.assertEqual(told["value"].encode(), body)
            else:
                self.assertEqual(told["value_base64"], "AP8NCg==")
        self.assertEqual(self.ask("/topics/a", "POST", b"z" * (most + 1)).status, 413)
        self.assertEqual(self.rig.store.find("a").number, 4)
        self.assertEqual(self.rig.load.held_bytes, 0)

    def test_lines(self) -> None:
        """Each line is a message; ends of lines and empty lines are none."""
        self.create("a")
        answer = self.ask("/topics/a", "POST", b'{"a": 1}\r\n\n[2]\n3', content_type=f"{LINES}; charset=utf-8")
        self.assertEqual(json.loads(answer.body)["count"], 3)
        self.assertEqual(values(self.ask("/topics/a")), ['{"a": 1}', "[2]", "3"])
        self.assertEqual(self.ask("/topics/a", "POST", b"\n\r\n", content_type=LINES).status, 400)

    def test_create(self) -> None:
        """A topic is made where that is asked for, and only then."""
        self.assertEqual(self.ask("/topics/new", "POST", b"x").status, 404)
        for offset in range(2):
            answer = self.ask("/topics/new?create=true", "POST", b"x")
            self.assertEqual(json.loads(answer.body)["offset"], offset)

    def test_once(self) -> None:
        """What a writer sends again is stored once; a gap and an overlap say which message comes next."""
        self.create("a")

        def send(sequence: int, *messages: str) -> Answer:
            return self.ask(
                "/topics/a",
                "POST",
                "\n".join(messages).encode(),
                content_type=LINES,
                streamd_writer="w",
                streamd_sequence=str(sequence),
            )

        for _ in range(2):
            self.assertEqual(send(0, "0", "1").status, 200)
        self.assertTrue(json.loads(send(0, "0", "1").body)["duplicate"])
        for sequence, messages in ((3, ("3",)), (1, ("1", "2"))):
            answer = send(sequence, *messages)
            self.assertEqual((answer.status, json.loads(answer.body)["sequence"]), (409, 2))
        self.assertEqual(json.loads(send(2, "2").body)["offset"], 2)
        self.assertEqual(values(self.ask("/topics/a")), ["0", "1", "2"])
        for headers in ({"streamd_writer": "w"}, {"streamd_sequence": "1"}):
            self.assertEqual(self.ask("/topics/a", "POST", b"x", **headers).status, 400)

    def test_bad_input(self) -> None:
        """Bad input of every kind is told of as JSON, stores nothing, and the next request is answered."""
        self.create("a", "sealed")
        self.done(self.rig.store.seal(self.rig.store.find("sealed")))
        for path, method, status in (
            *((f"/topics/{name}", method, 400) for name in ("%ff", "%00", "x" * 256) for method in ("GET", "POST")),
            *((f"/topics/a?from={text}", "GET", 400) for text in ("-1", "x", "1.5", "9" * 20, "%ff")),
            *((f"/topics/a?max={text}", "GET", 400) for text in ("0", "1001", "-1", "")),
            *((f"/topics/a?wait={text}", "GET", 400) for text in ("61", "-1", "x")),
            *(("/topics/none", method, 404) for method in ("GET", "POST")),
            ("/topics/a?create=maybe", "POST", 400),
            ("/topics/sealed", "POST", 409),
        ):
            answer = self.ask(path, method, b"x" if method == "POST" else b"")
            self.assertEqual((answer.status, answer.headers["content-type"]), (status, "application/json"), path)
            self.assertTrue(json.loads(answer.body)["error"])
        self.assertEqual(
            self.ask("/topics/a", "POST", b"x", content_type="multipart/form-data; boundary=y").status, 415
        )
        self.assertEqual(self.ask("/topics/a", "DELETE").status, 405)
        self.assertEqual(self.rig.store.find("a").number, 0)

    def test_full_disk(self) -> None:
        """A full disk is no loss: the answer says so and when to try again."""
        self.create("a")
        self.rig.disk.full = True
        answer = self.ask("/topics/a", "POST", b"x")
        self.assertEqual((answer.status, answer.headers["retry-after"]), (503, "1"))
        self.assertIn("disk is full", answer.text)

    def test_crowded(self) -> None:
        """Bodies count as buffered: where there is too much of that, the next one is refused, not kept."""
        self.create("a")
        self.rig.load.change(self.rig.limits.buffered_bytes_max + 1)
        self.rig.load.connections = self.rig.limits.buffered_bytes_max
        self.assertEqual(self.ask("/topics/a", "POST", b"x" * 10).status, 503)
        self.rig.load.connections = 0
        self.rig.load.change(-self.rig.limits.buffered_bytes_max - 1)
        self.assertEqual(self.ask("/topics/a", "POST", b"x" * 10).status, 200)

    def test_gone(self) -> None:
        """Of a client that goes away in the middle of its body nothing stays, neither stored nor held."""
        self.create("a")
        visitor = self.visit()
        visitor.send(request("/topics/a", "POST", b"x" * 1000)[:-1])
        self.assertEqual(self.rig.load.held_bytes, 999)
        visitor.leave()
        self.rig.run()
        self.assertEqual((self.rig.load.held_bytes, self.rig.store.find("a").number), (0, 0))

    def test_chunked(self) -> None:
        """A body without a length is taken as well, up to the same limit."""
        self.create("a")
        head = request("/topics/a", "POST", transfer_encoding="chunked")
        visitor = self.visit()
        visitor.send(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        self.rig.run()
        self.assertEqual(parse(visitor.take(), "POST").status, 200)
        self.assertEqual(values(self.ask("/topics/a")), ["abcde"])
        large = self.rig.limits.message_bytes_max + 1
        told = visitor.send(head + b"%x\r\n" % large + b"x" * large + b"\r\n0\r\n\r\n")
        self.assertEqual(parse(told, "POST").status, 413)


class ReadTests(SiteCase):
    def setUp(self) -> None:
        super().setUp()
        self.create("a")
        self.append("0", "1", "2", "3", "4")

    def append(self, *messages: str) -> None:
        self.done(self.rig.store.append(self.rig.store.find("a"), Batch.of([each.encode() for each in messages])))

    def test_from_and_max(self) -> None:
        """Reading goes on where the last answer ended, whatever the step."""
        for most in range(1, 7):
            read: list[str] = []
            first = 0
            while (answer := self.ask(f"/topics/a?from={first}&max={most}")).body:
                read += values(answer)
                first = int(answer.headers["streamd-next"])
            self.assertEqual((read, first), (["0", "1", "2", "3", "4"], 5))

    def test_head(self) -> None:
        """HEAD says where a topic begins and ends, and nothing more."""
        self.done(self.rig.store.truncate(self.rig.store.find("a"), 2))
        answer = self.ask("/topics/a", "HEAD")
        self.assertEqual((answer.status, answer.body), (200, b""))
        self.assertEqual((answer.headers["streamd-first"], answer.headers["streamd-next"]), ("2", "5"))
        self.assertEqual(self.ask("/topics/none", "HEAD").status, 404)
        gone = self.ask("/topics/a?from=1")
        self.assertEqual((gone.status, json.loads(gone.body)["first"]), (410, 2))
        self.assertEqual(values(self.ask("/topics/a")), ["2", "3", "4"])

    def test_wait(self) -> None:
        """Who waits is answered by the next message, or in time, or when the daemon ends; who goes leaves nothing."""
        came, late, gone, ended = (self.visit() for _ in range(4))
        for visitor, path in ((came, "from=5&wait=9"), (late, "from=6&wait=9"), (gone, "from=latest&wait=9")):
            self.assertEqual(visitor.send(request(f"/topics/a?{path}")), b"")
        gone.leave()
        self.append("5")
        self.assertEqual(values(parse(came.take())), ["5"])
        self.rig.advance(10)
        self.assertEqual((parse(late.take()).body, came.take()), (b"", b""))
        self.assertEqual(ended.send(request("/topics/a?from=latest&wait=60")), b"")
        self.site.drain()
        self.rig.run()
        self.assertEqual(parse(ended.take()).status, 200)

    def test_pipelined(self) -> None:
        """Requests that are sent at once are answered in their order."""
        visitor = self.visit()
        visitor.send(request("/topics/a", "POST", b"5") + request("/topics/a?from=5") + request("/topics/a", "HEAD"))
        self.rig.run()
        told = visitor.take()
        self.assertEqual(told.count(b"HTTP/1.1 200"), 3)
        self.assertLess(told.index(b'"offset": 5, "count": 1'), told.index(b'"value": "5"'))


class AccessTests(SiteCase):
    def test_rights(self) -> None:
        """Each right lets do what it lets do everywhere, and an error names the one that is missing."""
        self.create("a")
        for rights, allowed in (
            (("read",), {"GET"}),
            (("write",), {"POST"}),
            (("create",), set()),
            (("read", "write"), {"GET", "POST"}),
        ):
            self.rig.core.access = Access([AccessRule("anyone", rights, ("a", "new"))])
            for method, right in (("GET", "read"), ("POST", "write")):
                answer = self.ask("/topics/a", method, b"x" if method == "POST" else b"")
                if method in allowed:
                    self.assertEqual(answer.status, 200)
                else:
                    self.assertEqual((answer.status, json.loads(answer.body)["right"]), (403, right))
        answer = self.ask("/topics/new?create=true", "POST", b"x")
        self.assertEqual((answer.status, json.loads(answer.body)["right"]), (403, "create"))
        self.assertEqual(self.ask("/topics/other", "POST", b"x").status, 403)

    def test_rate(self) -> None:
        """Who is faster than its rate is answered later, and nothing is lost."""
        self.create("a")
        self.rig.core.access = Access([AccessRule("anyone", ("write",), messages_per_second_max=1.0)])
        visitor = self.visit()
        visitor.send(request("/topics/a", "POST", b"1\n2\n3", content_type=LINES))
        self.rig.run()
        self.assertEqual(visitor.take(), b"")
        self.rig.advance(3)
        self.assertEqual(json.loads(parse(visitor.take(), "POST").body)["count"], 3)


class PageTests(SiteCase):
    def test_elsewhere(self) -> None:
        """No page of another site publishes, by script or by form; nor does ours where the file does not say so."""
        self.create("a")
        for headers in (
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"origin": "http://localhost:9999"},
            {"sec_fetch_site": "cross-site", "sec_fetch_dest": "document"},
            {"sec_fetch_site": "same-site"},
            {"origin": "http://localhost:4880", "sec_fetch_site": "same-origin"},
        ):
            self.assertEqual(self.ask("/topics/a", "POST", b"x", **headers).status, 403, headers)
        self.assertEqual(self.ask("/topics/a", "OPTIONS", origin="http://evil.example").status, 405)
        self.assertEqual(self.rig.store.find("a").number, 0)


class OwnPageTests(SiteCase):
    settings = HttpSettings(publish=True)

    def test_own(self) -> None:
        """Where the file says so, our own page publishes, and still none from elsewhere."""
        self.create("a")
        own = {"origin": "http://localhost:4880", "sec_fetch_site": "same-origin"}
        self.assertEqual(self.ask("/topics/a", "POST", b"x", **own).status, 200)
        self.assertEqual(self.ask("/topics/a", "POST", b"x", origin="http://evil.example").status, 403)


class DaemonTests(SynchronousTestCase):
    """Real sockets, and a daemon that is killed."""

    def test_kill(self) -> None:
        """What was acknowledged survives kill -9, and is read by SESP; keep-alive serves all of it."""
        with Daemon(self.mktemp()) as daemon:
            connection = HTTPConnection("127.0.0.1", daemon.port("http"), timeout=DEADLINE_SECONDS)
            for number in range(20):
                status, body = ask(connection, "POST", "/topics/a?create=true", f"message {number}")
                self.assertEqual((status, json.loads(body)["offset"]), (200, number))
            sock = connection.sock
            self.assertIsInstance(sock, socket.socket)  # the same one for all
            connection.close()
            daemon.kill()
            daemon.start()
            with Sesp(daemon) as sesp:
                sesp.ask("@a")
                self.assertEqual([sesp.ask("<") for _ in range(20)], [b"message %d" % number for number in range(20)])
                sesp.ask(">from SESP")
            connection = HTTPConnection("127.0.0.1", daemon.port("http"), timeout=DEADLINE_SECONDS)
            status, body = ask(connection, "GET", "/topics/a?from=20&wait=30")
            self.assertEqual(json.loads(body)["value"], "from SESP")
            status, _ = ask(connection, "POST", "/topics/a", "x" * (9 << 20))
            self.assertEqual(status, 413)
            self.assertEqual(ask(connection, "HEAD", "/")[0], 200)
            connection.close()
            self.assertNotIn("HEAD", daemon.output)


def ask(connection: HTTPConnection, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
    """The status and the body of an answer."""
    connection.request(method, path, body)
    response: HTTPResponse = connection.getresponse()
    return response.status, response.read()
