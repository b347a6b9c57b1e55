"""Who is let in, what is served, and that nobody can hold more than a little of it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from twisted.trial.unittest import SynchronousTestCase

from streamd.http.guard import host_name
from streamd.http.site import SPARE_CONNECTIONS, HttpSettings
from tests.rigs.daemon import CHECKOUT
from tests.rigs.http.case import Answer, SiteCase, Visitor, parse, request

SCRIPTS = ("/streamd.js", "/pages.js", "/elements.js", "/figures.js")
PATHS = ("/", "/streamd.css", *SCRIPTS, "/icon.svg", "/events", "/metrics", "/healthz", "/readyz", "/no/such")


class HostTests(SiteCase):
    settings = HttpSettings(hosts="Stream.Example  other")

    def test_known(self) -> None:
        """An address, localhost and the names that are set are answered, with any port and in any case."""
        for host in (
            *("localhost", "localhost:4880", "LocalHost", "localhost.", "127.0.0.1", "127.0.0.1:80"),
            *("[::1]:4880", "[::1]", "192.0.2.7:1", "stream.example", "STREAM.example:4880", "other"),
        ):
            self.assertEqual(self.ask("/healthz", host=host).status, 200, host)

    def test_others(self) -> None:
        """A name of somebody else's is refused wherever it leads, and nothing is told but that."""
        for path in PATHS:
            for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "another", "0x7f.1"):
                answer = self.ask(path, host=host)
                self.assertEqual(answer.status, 421, (path, host))
                self.assertIn("http.hosts", answer.text)

    def test_nonsense(self) -> None:
        """What is no host, and none at all, is a bad request."""
        for host in ("", "localhost:port", "localhost:99999", "user@localhost", "localhost/x", "[::1", "?", "#"):
            self.assertEqual(self.ask("/healthz", host=host).status, 400, host)

    def test_several(self) -> None:
        """Of several Host headers none counts, whichever comes first, however it is written, and the same one twice."""
        for one, other in (("localhost", "evil.example"), ("evil.example", "localhost"), ("localhost", "localhost")):
            for path in PATHS:
                for name in (b"Host", b"host", b"HOST"):
                    visitor = self.visit()
                    head = request(path, host=one).replace(b"\r\n\r\n", b"\r\n%s: %s\r\n\r\n" % (name, other.encode()))
                    answer = parse(visitor.send(head))
                    self.assertEqual((answer.status, answer.text), (400, "more than one Host header\n"), (one, path))
                    visitor.leave()

    def test_name(self) -> None:
        """The port is no part of the name."""
        self.assertEqual(host_name("[::1]:80"), "::1")
        self.assertEqual(host_name("Example.ORG.:80"), "example.org")
        self.assertIsNone(host_name(":80"))


class MethodTests(SiteCase):
    def test_read_only(self) -> None:
        """Whatever might change something is refused everywhere."""
        for path in PATHS:
            for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
                answer = self.ask(path, method, b"some=thing")
                self.assertEqual((answer.status, answer.headers["allow"]), (405, "GET, HEAD"), (method, path))

    def test_head(self) -> None:
        """HEAD is GET without the body."""
        for path in ("/", "/metrics", "/healthz", "/readyz"):
            self.assertEqual(self.ask(path, "HEAD").status, 200)
            self.assertEqual(self.ask(path, "HEAD").body, b"")
        self.assertEqual(self.ask("/events", "HEAD").status, 200)

    def test_body(self) -> None:
        """A body is not kept, however large, and the next request on the connection is answered."""
        visitor = self.visit()
        visitor.send(request("/healthz", content_length=str(64 << 20)))
        for _ in range(64):
            visitor.send(b"x" * (1 << 20))
            self.assertEqual(visitor.channel.requests[0].content.getvalue() if visitor.channel.requests else b"", b"")
        self.assertEqual(parse(visitor.send(request("/healthz"))).text, "alive\n")

    def test_page_from_elsewhere(self) -> None:
        """A page of another site can't make a browser read or watch anything; a link there leads here."""
        for path in PATHS:
            for site in ("cross-site", "same-site"):
                self.assertEqual(self.ask(path, sec_fetch_site=site, sec_fetch_dest="empty").status, 403, path)
                self.assertEqual(self.ask(path, sec_fetch_site=site, sec_fetch_dest="iframe").status, 403, path)
        self.assertEqual(self.ask("/", sec_fetch_site="cross-site", sec_fetch_dest="document").status, 200)
        self.assertEqual(self.ask("/metrics", sec_fetch_site="same-origin", sec_fetch_dest="empty").status, 200)


class ServedTests(SiteCase):
    def test_guarded(self) -> None:
        """Every answer, refusals too, forbids scripts, styles and frames from elsewhere."""
        for path in PATHS:
            for host in ("localhost", "evil.example"):
                headers = self.ask(path, "HEAD", host=host).headers
                self.assertIn("default-src 'none'; script-src 'self'", headers["content-security-policy"])
                self.assertIn("frame-ancestors 'none'", headers["content-security-policy"])
                self.assertNotIn("unsafe", headers["content-security-policy"])
                self.assertEqual(headers["x-content-type-options"], "nosniff")
                self.assertNotIn("access-control-allow-origin", headers)

    def test_types(self) -> None:
        """Each file is served as what it is."""
        for path, kind in {
            "/": "text/html; charset=utf-8",
            "/?segment=a": "text/html; charset=utf-8",
            "/streamd.css": "text/css; charset=utf-8",
            **dict.fromkeys(SCRIPTS, "text/javascript; charset=utf-8"),
            "/icon.svg": "image/svg+xml",
        }.items():
            answer = self.ask(path)
            self.assertEqual((answer.status, answer.headers["content-type"]), (200, kind))
            self.assertTrue(answer.body)

    def test_nothing(self) -> None:
        """Other addresses say what there is, and never repeat what was asked."""
        for path in (
            "/x",
            "/metrics/x",
            "/x/metrics",
            "/metrics/",
            "/static/",
            "/../etc/passwd",
            "/%2e%2e/",
            "/<script>",
            "/a/b/c/d",
        ):
            answer = self.ask(path)
            self.assertEqual(answer.status, 404, path)
            self.assertEqual(answer.headers["content-type"], "text/plain; charset=utf-8")
            self.assertIn("/metrics", answer.text)

    def test_garbage(self) -> None:
        """What is no HTTP costs its own connection."""
        other = self.visit()
        for data in (b"\0\1\2\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nno header\r\n\r\n", b"x" * 70_000):
            visitor = self.visit()
            visitor.send(data)
            self.assertTrue(visitor.transport.disconnecting, data[:20])
            visitor.leave()
        self.assertEqual(parse(other.send(request("/healthz"))).status, 200)

    def test_idle(self) -> None:
        """A connection on which nothing is asked is closed, also where its peer sends a byte of it now and then."""
        visitors = [self.visit() for _ in range(3)]
        visitors[0].send(b"GET / HT")
        visitors[2].send(request("/healthz"))
        for byte in request("/healthz")[:30]:
            visitors[1].send(bytes([byte]))
            visitors[2].send(bytes([byte]))
            self.rig.advance(2)
        self.rig.advance(1)
        self.assertEqual([each.transport.disconnecting for each in visitors], [True] * 3)
        self.assertEqual(self.rig.load.traffic_of("http").connections_cut_off["idle"], 3)
        self.rig.advance(20)
        self.assertEqual([each.transport.disconnected for each in visitors], [True] * 3)

    def test_not_idle(self) -> None:
        """Each request is a new beginning, and who waits for an answer or watches a page is not idle."""
        visitor, page = self.visit(), self.watch("/events")
        for _ in range(5):
            self.rig.advance(50)
            self.assertEqual(parse(visitor.send(request("/healthz"))).status, 200)
        self.assertFalse(visitor.transport.disconnecting)
        self.assertFalse(page.transport.disconnecting)


class CrowdTests(SiteCase):
    settings = HttpSettings(connections_max=3, streams_max=2)

    def test_counted(self) -> None:
        """Connections to it are counted, and are not those of the protocols."""
        visitors = [self.visit() for _ in range(3)]
        self.assertEqual(self.rig.load.connections, 0)
        self.assertEqual(self.rig.load.traffic_of("http").connections, 3)
        visitors[0].leave()
        self.assertEqual(self.rig.load.traffic_of("http").connections, 2)

    def test_idle_give_way(self) -> None:
        """Idle connections, however many, keep nobody out: the one that is idle longest goes, and is counted."""
        early = self.visit()
        for _ in range(100):
            self.visit().send(b"GET /heal")
            self.assertEqual(self.ask("/healthz").status, 200)
            self.assertLessEqual(self.rig.load.traffic_of("http").connections, 3)
        self.assertTrue(early.transport.disconnected)
        self.assertGreaterEqual(self.rig.load.traffic_of("http").connections_cut_off["idle"], 98)
        self.assertEqual(self.rig.load.traffic_of("http").connections_refused["connections"], 0)

    def test_longest_idle_first(self) -> None:
        """An answer makes a connection the last to go; what is not answered, such as half a request, does not."""
        one, two, three = (self.visit() for _ in range(3))
        one.send(request("/healthz"))
        two.send(b"GET /")
        self.visit()
        self.assertEqual([each.transport.disconnected for each in (one, two, three)], [False, True, False])
        self.visit()
        self.assertEqual([each.transport.disconnected for each in (one, two, three)], [False, True, True])

    def test_drain(self) -> None:
        """At the end streams end, idle connections close, and who does not take the rest is cut off in time."""
        idle, stream = self.visit(), self.watch("/events")
        drained = self.site.drain()
        self.assertTrue(idle.transport.disconnecting)
        self.assertTrue(stream.take().endswith(b"0\r\n\r\n"))
        self.assertNoResult(drained)
        idle.leave()
        self.assertFalse(stream.transport.disconnected)
        self.rig.advance(self.rig.limits.drain_seconds_max + 1)
        self.assertTrue(stream.transport.disconnected)
        stream.leave()
        self.successResultOf(drained)

    def test_drain_nobody(self) -> None:
        """With nobody there it is done at once."""
        self.successResultOf(self.site.drain())


class BusyTests(SiteCase):
    """Every connection watches a page: none of them is idle."""

    settings = HttpSettings(connections_max=2, streams_max=9)

    def setUp(self) -> None:
        super().setUp()
        self.pages = [self.watch("/events?segment=a") for _ in range(2)]

    def ask_on(self, visitor: Visitor, path: str) -> Answer:
        told = visitor.send(request(path))
        self.rig.run()
        return parse(told + visitor.take())

    def test_health_has_room(self) -> None:
        """Some more are answered, once each: for health and figures alone, also where others do nothing with theirs."""
        for path in ("/healthz", "/readyz", "/metrics"):
            for _ in range(30):
                self.visit().send(b"GET /heal")
                visitor = self.visit()
                answer = self.ask_on(visitor, path)
                self.assertEqual((answer.status, answer.headers["connection"]), (200, "close"), path)
                self.assertTrue(visitor.transport.disconnecting)
        for path in ("/", "/streamd.js", "/events", "/no/such"):
            answer = self.ask_on(self.visit(), path)
            self.assertEqual(answer.status, 503, path)
            self.assertIn("http.connections_max", answer.text)
        self.assertEqual([page.transport.disconnecting for page in self.pages], [False, False])
        self.assertLessEqual(self.rig.load.traffic_of("http").connections, 2 + SPARE_CONNECTIONS)
        self.pages[0].leave()
        self.assertEqual(self.ask("/").status, 200)

    def test_all_busy(self) -> None:
        """Even that room has an end: the next one is refused, and counted."""
        waiting = [self.visit() for _ in range(SPARE_CONNECTIONS)]
        for visitor in waiting:
            # Its answer takes some turns.
            visitor.channel.dataReceived(request("/metrics"))
        self.assertIsNone(self.site.buildProtocol(None))
        self.assertEqual(self.rig.load.traffic_of("http").connections_refused["connections"], 1)
        self.rig.run()
        self.assertEqual({parse(visitor.take()).status for visitor in waiting}, {200})
        self.assertEqual(self.ask_on(self.visit(), "/healthz").status, 200)


class _Markup(HTMLParser):
    """Collects what a page refers to, and what should stand in no page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.inline: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.fields: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.targets += [named[name] for name in ("src", "href") if name in named]
        self.inline += [name for name in named if name.startswith("on") or name == "style"]
        if tag == "style" or (tag == "script" and "src" not in named):
            self.inline.append(tag)
        self.ids += [named["id"]] if "id" in named else []
        for name in ("aria-labelledby", "aria-describedby", "for"):
            self.references += named.get(name, "").split()
        if tag in ("input", "select", "meter"):
            self.fields.append(named["id"] if "label" not in self.open else "")
        if tag == "label":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "label":
            self.open.remove(tag)


class MarkupTests(SiteCase):
    def setUp(self) -> None:
        super().setUp()
        self.markup = _Markup()
        self.markup.feed(self.ask("/").text)

    def test_own(self) -> None:
        """The page needs nothing from elsewhere, and everything that it points to is there."""
        for target in set(self.markup.targets):
            self.assertNotRegex(target, r"^(\w+:|//)")
            if not target.startswith("#"):
                self.assertEqual(self.ask("/" + target.removeprefix("./")).status, 200, target)
        for path in (*SCRIPTS, "/streamd.css"):
            found = re.findall(r"https?://[^\s\"')]+", self.ask(path).text)
            self.assertEqual([each for each in found if each != "http://www.w3.org/2000/svg"], [], path)

    def test_modules(self) -> None:
        """What one part of the script takes from another is there."""
        texts = {path.removeprefix("/"): self.ask(path).text for path in SCRIPTS}
        offered = {name: set(re.findall(r"export (?:const|function) ([\w$]+)", text)) for name, text in texts.items()}
        taken = [
            found for text in texts.values() for found in re.findall(r'import \{(.*?)\}\s+from "\./(.*?)"', text, re.S)
        ]
        self.assertEqual(len(taken), 5)
        for names, module in taken:
            self.assertEqual(set(re.findall(r"[\w$]+", names)) - offered[module], set())

    def test_no_inline(self) -> None:
        """Nothing stands in the page that its policy would forbid."""
        self.assertEqual(self.markup.inline, [])

    def test_labels(self) -> None:
        """Each field has a label, each reference leads to something, and no id is there twice."""
        self.assertEqual(len(self.markup.ids), len(set(self.markup.ids)))
        self.assertEqual(set(self.markup.references) - set(self.markup.ids), set())
        for field in self.markup.fields:
            self.assertTrue(field == "" or field in self.markup.references, field)

    def test_script(self) -> None:
        """Each element that the script asks for is in the page, and none is filled with markup."""
        script = "".join(self.ask(path).text for path in SCRIPTS)
        wanted = set(re.findall(r"(?:\$|put)\(\"([\w-]+)\"", script))
        self.assertGreater(len(wanted), 40)
        self.assertEqual(wanted - set(self.markup.ids), set())
        self.assertNotRegex(script, r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(")


class ContrastTests(SynchronousTestCase):
    """Text can be read in both schemes: 4.5 to 1, as WCAG asks for at its level AA."""

    def test_pairs(self) -> None:
        style = (CHECKOUT / "streamd" / "http" / "static" / "streamd.css").read_text(encoding="utf-8")
        schemes = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
        self.assertEqual(len(schemes), 2)
        for scheme in schemes:
            colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", scheme))
            for text in ("ink", "quiet", "one", "two", "good", "bad"):
                for ground in ("ground", "card"):
                    self.assertGreaterEqual(contrast(colors[text], colors[ground]), 4.5, (text, ground))
            for mark in ("good", "bad", "quiet"):
                self.assertGreaterEqual(contrast(colors["on-mark"], colors[mark]), 4.5, mark)


def contrast(one: str, other: str) -> float:
    """How far two colours are apart, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(color: str) -> float:
    """How bright a colour is, from 0 to 1."""
    shares = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
