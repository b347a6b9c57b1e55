"""The web site: its resources, its connections, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.logger import Logger
from twisted.web.http import FORBIDDEN, NOT_FOUND, SERVICE_UNAVAILABLE
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from streamd.access.permits import NotAllowed
from streamd.connections.core import Core
from streamd.connections.gathering import Gathering
from streamd.http.events import Events
from streamd.http.exposition import Metrics
from streamd.http.guard import NAME, Channel, Guard, allow_something, refuse
from streamd.http.health import Healthz, Readyz
from streamd.http.sampling import Sampler
from streamd.http.survey import Survey
from streamd.http.topics import Topics
from streamd.settings import setting
from streamd.tables import fill

# A connection on which nothing is asked for so long is closed.
_IDLE_SECONDS_MAX: Final = 60.0

_STATIC: Final = {
    b"": ("index.html", b"text/html; charset=utf-8"),
    b"streamd.css": ("streamd.css", b"text/css; charset=utf-8"),
    **{
        name.encode(): (name, b"text/javascript; charset=utf-8")
        for name in ("streamd.js", "pages.js", "elements.js", "figures.js")
    },
    b"icon.svg": ("icon.svg", b"image/svg+xml"),
}

OPEN: Final = frozenset({*_STATIC, b"healthz", b"readyz"})
"""The resources that tell nothing about data, and are served to everybody. All others take some right."""

# What is answered also where every connection is busy.
_HEALTH: Final = frozenset({b"healthz", b"readyz", b"metrics"})

SPARE_CONNECTIONS: Final = 8
"""Connections beyond the limit, for the open resources."""


@dataclass(frozen=True)
class HttpSettings:
    """``[http]``, beside the endpoint."""

    hosts: str = setting("", "names of the site beside localhost, separated by blanks")
    connections_max: int = setting(64, "connections to the site; for one more the longest idle one is closed", least=1)
    streams_max: int = setting(32, "pages of the console that may be open at a time", least=1)
    publish: bool = setting(False, "whether pages of this site may publish messages, where a rule allows it")


class _File(Resource):
    """One of the few static files, which is kept in memory."""

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
    """The root resource: knows all resources and who may have them, and answers for every other address itself."""

    def getChildWithDefault(self, path: bytes, request: Any) -> Resource:
        # Nothing lies below anything but topics.
        alone = request.prepath == [path] and bool(request.postpath) is (path == b"topics")
        child = self.children.get(path) if alone else None
        if request.channel.is_spare and (child is None or path not in _HEALTH):
            return _Refused(SERVICE_UNAVAILABLE, "every connection is in use, see http.connections_max")
        if child is not None and path not in OPEN and child is not request.channel.site.topics:
            # Topics ask for themselves, and answer as JSON.
            try:
                allow_something(request.channel.permits)
            except NotAllowed as error:
                return _Refused(FORBIDDEN, request.channel.explain(error))
        return self if child is None else child

    def render(self, request: Request) -> bytes:
        return refuse(request, NOT_FOUND, "there is nothing here; try /, /topics/NAME, /metrics, /healthz or /readyz")


class _Refused(Resource):
    """The resource in place of one that this peer may not have, or not now."""

    isLeaf = True

    def __init__(self, code: int, reason: str) -> None:
        super().__init__()
        self._code = code
        self._reason = reason

    def render(self, request: Request) -> bytes:
        return refuse(request, self._code, self._reason)


class HttpSite(Gathering[Channel], Site):
    """The site on one endpoint."""

    _log = Logger()
    noisy = False

    def __init__(self, core: Core, settings: HttpSettings) -> None:
        Gathering.__init__(self, core, core.load.traffic_of(NAME))
        self._settings = settings
        self._idle: dict[Channel, None] = {}
        """Connections that wait for no answer, longest idle first."""
        self._survey: Survey = core.shared.setdefault((NAME, "survey"), Survey(core))
        self._sampler: Sampler = core.shared.setdefault((NAME, "sampler"), Sampler(core))
        self.hosts = frozenset(name.casefold() for name in settings.hosts.split())
        self._events = Events(core, self._sampler, self._survey, settings.streams_max)
        root = _Root()
        for path, (name, content_type) in _STATIC.items():
            root.putChild(path, _File(name, content_type))
        self.topics = Topics(core, from_page=settings.publish)
        root.putChild(b"events", self._events)
        root.putChild(b"topics", self.topics)
        root.putChild(b"metrics", Metrics(core, self._survey))
        root.putChild(b"healthz", Healthz())
        root.putChild(b"readyz", Readyz(core))
        Site.__init__(self, root, Guard, timeout=_IDLE_SECONDS_MAX, reactor=core.clock, parsePOSTFormSubmission=False)
        # Alone: without the one for HTTP/2, which nobody here needs.
        self.protocol = partial(Channel, core)  # type: ignore[assignment, method-assign]

    def startFactory(self) -> None:
        """Start sampling, now that the site listens."""
        super().startFactory()
        self._sampler.start()

    def stopFactory(self) -> None:
        """Stop sampling, now that the site listens no more."""
        super().stopFactory()
        self._sampler.stop()

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """A channel for a new connection. At the limit the longest idle one gives way, unless all are busy."""
        ordinary = self._has_place(self._settings.connections_max, is_spare=False)
        if not ordinary and not self._has_place(SPARE_CONNECTIONS, is_spare=True):
            self.traffic.connections_refused["connections"] += 1
            self._log.warn("{peer} refused: there are too many connections to the dashboard", peer=str(addr))
            return None
        channel = super().buildProtocol(addr)
        channel.is_spare = not ordinary
        return channel

    def _has_place(self, most: int, *, is_spare: bool) -> bool:
        """Whether there is room for one more connection of a kind; an idle one gives way."""
        if sum(channel.is_spare is is_spare for channel in self.connections) < most:
            return True
        idle = next((channel for channel in self._idle if channel.is_spare is is_spare), None)
        if idle is not None:
            idle.give_way()
        return idle is not None

    def joined(self, connection: Channel) -> None:
        """Note that a connection is up, and idle."""
        super().joined(connection)
        self.is_idle(connection)

    def left(self, connection: Channel) -> None:
        """Note that a connection is gone."""
        self._idle.pop(connection, None)
        super().left(connection)

    def is_idle(self, connection: Channel) -> None:
        """Note that a connection waits for no answer."""
        if connection in self.connections:
            self._idle[connection] = None

    def is_busy(self, connection: Channel) -> None:
        """Note that a connection waits for an answer."""
        self._idle.pop(connection, None)

    def acceptableProtocols(self) -> list[bytes]:
        """The application protocols that TLS offers."""
        return [b"http/1.1"]

    def log(self, request: Any) -> None:
        """Log a request, at debug."""
        self._log.debug("{method} {path} {code}", method=request.method, path=request.path, code=request.code)

    def drain(self) -> Deferred[Any]:
        """End all streams of events and then all connections, within the limit; fires when they are gone."""
        self._events.end()
        self.topics.end()
        return super().drain()


def configure(table: Mapping[str, object]) -> HttpSettings:
    """The settings of one ``[http]`` table."""
    return fill(HttpSettings, table)


def factory(core: Core, settings: object) -> HttpSite:
    """The site for one endpoint."""
    assert isinstance(settings, HttpSettings)
    return HttpSite(core, settings)
