"""The web site: which requests are let in, what they find, and how it all ends.

Nobody can change anything from here. It is for people on this machine and for monitoring, so it asks for no password; a
page of somebody else's in a browser on this machine must not get at it all the same. Hence the checks of `Guard`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import BAD_REQUEST, FORBIDDEN, NOT_ALLOWED, HTTPChannel
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from streamd.config import fill
from streamd.http.events import Events
from streamd.http.exposition import Metrics
from streamd.http.health import TEXT, Healthz, Readyz
from streamd.http.sampling import Sampler
from streamd.http.survey import Survey
from streamd.interfaces import Core
from streamd.settings import setting

NAME: Final = "http"

# A connection on which nothing is asked for so long is closed.
_IDLE_SECONDS_MAX: Final = 60.0

_MISDIRECTED: Final = 421

# The page brings all it needs with it: no script, style or picture may come from anywhere else, nor stand in the text.
_HEADERS: Final = {
    b"content-security-policy": (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}

_STATIC: Final = {
    b"": ("index.html", b"text/html; charset=utf-8"),
    b"streamd.css": ("streamd.css", b"text/css; charset=utf-8"),
    b"streamd.js": ("streamd.js", b"text/javascript; charset=utf-8"),
    b"icon.svg": ("icon.svg", b"image/svg+xml"),
}


@dataclass(frozen=True)
class HttpSettings:
    """``[http]``, beside the endpoint."""

    hosts: str = setting("", "names beside localhost that it is asked by, separated by blanks")
    connections_max: int = setting(64, "connections to it; more are closed at once", least=1)
    streams_max: int = setting(32, "pages of the dashboard that may be open at a time", least=1)


def refusal(
    method: bytes, host: str | None, headers: Mapping[str, str], hosts: frozenset[str]
) -> tuple[int, str] | None:
    """Why a request is not let in, as a status and a reason; None where it is.

    A name that leads here is not enough: any site can have its own name point to this machine, and a browser then takes
    us for that site. An address can't be claimed like that, and names of ours are known.
    """
    if method not in (b"GET", b"HEAD"):
        return NOT_ALLOWED, "only GET and HEAD: nothing can be changed here"
    if host is None:
        return BAD_REQUEST, "a Host header is missing"
    name = host_name(host)
    if name is None:
        return BAD_REQUEST, "the Host header makes no sense"
    if not (name == "localhost" or name in hosts or _is_address(name)):
        return _MISDIRECTED, f"this is not {name}; names are set with http.hosts"
    if headers.get("sec-fetch-site") in ("cross-site", "same-site") and headers.get("sec-fetch-dest") != "document":
        return FORBIDDEN, "asked for by a page from elsewhere"
    return None


def host_name(host: str) -> str | None:
    """The name or address in a Host header, without its port; None where there is none."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # which is checked only when it is asked for
    except ValueError:
        return None
    if parts.netloc != host or "@" in host or not parts.hostname:
        return None
    return parts.hostname.removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Guard(Request):
    """A request that is looked at before anything is done for it."""

    channel: Channel

    def gotLength(self, length: int | None) -> None:
        """Nobody here wants a body: it is not kept."""
        super().gotLength(0)

    def handleContentChunk(self, data: bytes) -> None:
        """Neither is what comes of it."""

    def process(self) -> None:
        """Let it in, or say why not."""
        for name, value in _HEADERS.items():
            self.setHeader(name, value)
        headers = {name: self.getHeader(name) or "" for name in ("sec-fetch-site", "sec-fetch-dest")}
        refused = refusal(self.method, self.getHeader("host"), headers, self.channel.site.hosts)
        if refused is None:
            super().process()
            return
        code, reason = refused
        self.setResponseCode(code, b"Misdirected Request" if code == _MISDIRECTED else None)
        self.setHeader(b"content-type", TEXT)
        if code == NOT_ALLOWED:
            self.setHeader(b"allow", b"GET, HEAD")
        body = f"{reason}\n".encode()
        self.setHeader(b"content-length", b"%d" % len(body))
        self.write(body)
        self.finish()


class Channel(HTTPChannel):
    """A connection that is counted, and closed where its peer asks for more than it takes."""

    site: HttpSite
    # Each of our transports can be aborted, which ITransport does not say.
    transport: Any
    _untaken = False

    def connectionMade(self) -> None:
        super().connectionMade()
        self.site.joined(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        self.site.left(self)

    def pauseProducing(self) -> None:
        """The peer does not take what it asked for."""
        self._untaken = True
        super().pauseProducing()

    def resumeProducing(self) -> None:
        """It does again."""
        self._untaken = False
        super().resumeProducing()

    def requestDone(self, request: Any) -> None:
        """Go on with the next request, unless the answers to those before it are still here."""
        if self._untaken:
            # A thousand requests fit into what is read at once, and their answers would all be kept.
            self.persistent = False
        super().requestDone(request)


class _File(Resource):
    """One of the few files of the page, which is in memory."""

    isLeaf = True

    def __init__(self, name: str, content_type: bytes) -> None:
        super().__init__()
        self._data = files("streamd.http").joinpath("static", name).read_bytes()
        self._content_type = content_type

    def render_GET(self, request: Request) -> bytes:
        request.setHeader(b"content-type", self._content_type)
        request.setHeader(b"cache-control", b"no-cache")
        return self._data


class _Root(Resource):
    """Knows what there is, and stands for every other address itself."""

    def getChildWithDefault(self, path: bytes, request: Request) -> Resource:
        # Nothing lies below anything.
        alone = not request.postpath and request.prepath == [path]
        return self.children.get(path, self) if alone else self

    def render(self, request: Request) -> bytes:
        request.setResponseCode(404)
        request.setHeader(b"content-type", TEXT)
        return b"there is nothing here; try /, /metrics, /healthz or /readyz\n"


class HttpSite(Site):
    """The site on one endpoint."""

    _log = Logger()
    noisy = False
    protocol = Channel  # type: ignore[assignment]  # alone: without the one for HTTP/2, which nobody here needs

    def __init__(self, core: Core, settings: HttpSettings) -> None:
        self._core = core
        self._settings = settings
        self._survey: Survey = core.shared.setdefault((NAME, "survey"), Survey(core))
        self._sampler: Sampler = core.shared.setdefault((NAME, "sampler"), Sampler(core))
        self._traffic = core.load.traffic_of(NAME)
        self._channels: set[Channel] = set()
        self._drained: list[Deferred[None]] = []
        self.hosts = frozenset(name.casefold() for name in settings.hosts.split())
        self._events = Events(core, self._sampler, self._survey, settings.streams_max)
        root = _Root()
        for path, (name, content_type) in _STATIC.items():
            root.putChild(path, _File(name, content_type))
        root.putChild(b"events", self._events)
        root.putChild(b"metrics", Metrics(core, self._survey))
        root.putChild(b"healthz", Healthz())
        root.putChild(b"readyz", Readyz(core, self._survey))
        super().__init__(root, Guard, timeout=_IDLE_SECONDS_MAX, reactor=core.clock, parsePOSTFormSubmission=False)

    def startFactory(self) -> None:
        """It listens: take samples from now on."""
        super().startFactory()
        self._sampler.start()

    def stopFactory(self) -> None:
        """It listens no more."""
        super().stopFactory()
        self._sampler.stop()

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """A connection, unless there are too many."""
        if len(self._channels) >= self._settings.connections_max:
            self._traffic.connections_refused["connections"] += 1
            self._log.warn("{peer} refused: there are too many connections to the dashboard", peer=str(addr))
            return None
        return super().buildProtocol(addr)

    def acceptableProtocols(self) -> list[bytes]:
        """What TLS offers."""
        return [b"http/1.1"]

    def log(self, request: Any) -> None:
        """One line for each request, for those who want to know it all."""
        self._log.debug("{method} {path} {code}", method=request.method, path=request.path, code=request.code)

    def joined(self, channel: Channel) -> None:
        """A connection is up."""
        self._channels.add(channel)
        self._traffic.connections += 1
        self._traffic.connected += 1

    def left(self, channel: Channel) -> None:
        """A connection is gone."""
        self._channels.discard(channel)
        self._traffic.connections -= 1
        if not self._channels:
            drained, self._drained = self._drained, []
            for deferred in drained:
                deferred.callback(None)

    def drain(self) -> Deferred[Any]:
        """End all connections, within the limit; fires when they are gone."""
        self._events.end()
        if not self._channels:
            return succeed(None)
        drained: Deferred[None] = Deferred()
        self._drained.append(drained)
        late = self._core.clock.callLater(self._core.limits.drain_seconds_max, self._abort_all)
        drained.addCallback(lambda _: late.cancel() if late.active() else None)
        for channel in list(self._channels):
            channel.loseConnection()
        return drained

    def _abort_all(self) -> None:
        for channel in list(self._channels):
            channel.transport.abortConnection()


def configure(table: Mapping[str, object]) -> HttpSettings:
    """The settings of one ``[http]`` table."""
    return fill(HttpSettings, table)


def factory(core: Core, settings: object) -> HttpSite:
    """The site for one endpoint."""
    assert isinstance(settings, HttpSettings)
    return HttpSite(core, settings)
