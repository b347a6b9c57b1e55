"""The site without sockets: a real store, a clock in the test's hand, and requests to the byte."""

from __future__ import annotations

import json
from http.client import HTTPResponse
from io import BytesIO
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from streamd.http.site import HttpSettings, HttpSite
from streamd.store import Segment
from tests.rigs.protocols.rig import Rig


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class _Socket(BytesIO):
    """What http.client wants to read a response from."""

    def makefile(self, mode: str) -> BytesIO:
        return self


def parse(data: bytes, method: str = "GET") -> Answer:
    """The first response in what came back."""
    response = HTTPResponse(_Socket(data), method=method)  # type: ignore[arg-type]
    response.begin()
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


class Visitor:
    """One connection to the site."""

    def __init__(self, site: HttpSite) -> None:
        self.transport: Any = StringTransport()
        self.channel = site.buildProtocol(None)
        assert self.channel is not None, "too many connections"
        self.channel.makeConnection(self.transport)
        self.lost = False

    def send(self, data: bytes) -> bytes:
        """Send something, and take all that comes back at once."""
        self.channel.dataReceived(data)
        return self.take()

    def take(self) -> bytes:
        data: bytes = self.transport.value()
        self.transport.clear()
        return data

    def events(self) -> list[dict[str, Any]]:
        """The events that came since the last time, out of the chunks that they are sent in."""
        lines = self.take().split(b"\n")
        return [json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: ")]

    def leave(self) -> None:
        """Be gone."""
        if not self.lost:
            self.lost = True
            aborted = self.transport.disconnected
            self.channel.connectionLost(Failure(ConnectionAborted() if aborted else ConnectionDone()))


class SiteCase(SynchronousTestCase):
    """A site on a store."""

    settings = HttpSettings()

    def setUp(self) -> None:
        self.rig = Rig(self.mktemp())
        self.site = HttpSite(self.rig.core, self.settings)
        self.site.startFactory()
        self.visitors: list[Visitor] = []
        self.addCleanup(self.close)

    def close(self) -> None:
        for visitor in self.visitors:
            visitor.leave()
        self.site.stopFactory()
        self.rig.close()

    def visit(self) -> Visitor:
        """One more connection."""
        visitor = Visitor(self.site)
        self.visitors.append(visitor)
        return visitor

    def ask(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
        """The answer to one request on a connection of its own."""
        visitor = self.visit()
        told = visitor.send(request(path, method, body, **headers))
        self.rig.run()
        told += visitor.take()
        visitor.leave()
        return parse(told, method)

    def watch(self, path: str) -> Visitor:
        """A stream of events."""
        visitor = self.visit()
        visitor.channel.dataReceived(request(path))
        self.rig.run()
        return visitor

    def create(self, *names: str) -> list[Segment]:
        """New segments."""
        for name in names:
            self.rig.store.create(name)
        self.rig.run()
        return [self.rig.store.find(name) for name in names]

    def done(self, deferred: Deferred[Any]) -> Any:
        """What it fires with, when everything has happened that can."""
        self.rig.run()
        return self.successResultOf(deferred)


def request(path: str, method: str = "GET", body: bytes = b"", **headers: str) -> bytes:
    """A request; ``Host`` is localhost where nothing else is said, and missing where it is empty."""
    named = {"host": "localhost:4880", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body:
        named["content-length"] = str(len(body))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items() if value), "", ""]
    return "\r\n".join(lines).encode() + body
