"""The guard of the web site: which requests are answered at all, and what a peer is told.

Nothing can be changed from here but by publishing messages, and without rules of access no peer is asked who it is.
Still, a foreign page in a browser on this machine must neither read nor publish anything: hence `refusal`. Where there
are rules they hold here as in every protocol: the peer of a channel is a peer like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import (
    BAD_REQUEST,
    FORBIDDEN,
    NOT_ALLOWED,
    REQUEST_ENTITY_TOO_LARGE,
    SERVICE_UNAVAILABLE,
    HTTPChannel,
)
from twisted.web.server import NOT_DONE_YET, Request

from streamd.access.peer import peer_of
from streamd.access.permits import ANY, NotAllowed, Permits
from streamd.connections.core import Core
from streamd.connections.permitted import Permitted
from streamd.http.health import TEXT

if TYPE_CHECKING:
    from streamd.http.site import HttpSite

NAME: Final = "http"
"""The name of the service in logs, metrics and settings."""

PUBLISHED: Final = b"/topics/"
"""Where messages are published, and nothing else is changed."""

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


def refusal(
    method: bytes, stated: Sequence[str], headers: Mapping[str, str], hosts: frozenset[str], *, publishes: bool = False
) -> tuple[int, str] | None:
    """Why a request with these Host headers is refused, as a status and a reason; None where it is accepted.

    A name that resolves to this machine is not enough: any site can have its own name point here, and a browser then
    takes us for that site. An address can't be claimed like that, and our own names are known.
    """
    if method not in (b"GET", b"HEAD") and not publishes:
        return NOT_ALLOWED, "only GET and HEAD: nothing can be changed here"
    if not stated:
        return BAD_REQUEST, "a Host header is missing"
    if len(stated) > 1:
        # A proxy before us may have gone by another one of them.
        return BAD_REQUEST, "more than one Host header"
    name = host_name(stated[0])
    if name is None:
        return BAD_REQUEST, "the Host header makes no sense"
    if not (name == "localhost" or name in hosts or _is_address(name)):
        return _MISDIRECTED, f"this is not {name}; names are set with http.hosts"
    foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
    if foreign and (publishes or headers.get("sec-fetch-dest") != "document"):
        return FORBIDDEN, "asked for by a page from elsewhere"
    # A form of another site is sent as a document, and a browser that names no site names the origin of the page.
    origin = headers.get("origin", "")
    if publishes and origin and origin.partition("://")[2].casefold() != stated[0].casefold():
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


def allow_something(permits: Permits) -> None:
    """Raise NotAllowed where no rule gives the peer any right on any topic: it may see no figures either."""
    if not permits.anywhere(ANY):
        raise NotAllowed("no rule of access matches you")


class Guard(Request):
    """A request that is checked before anything is done for it."""

    channel: Channel
    is_gone = False
    """Whether the peer is gone, and nobody waits for the answer."""
    excess = 0
    """The status to answer with where the body is too large, or there is no room for it."""
    is_from_page = False
    """Whether a page in a browser asks, one of our own, and not a program."""
    _publishes = False
    _held_bytes = 0

    def __init__(self, channel: Any, queued: object = None) -> None:
        super().__init__(channel)
        self.body: list[bytes] = []
        """The body, as it came. Only what is to be published is kept."""

    def gotLength(self, length: int | None) -> None:
        """Note the length of a body. Only that of a message is kept, and not in a file, as Twisted does."""
        super().gotLength(0)
        self._publishes = self.channel.is_publishing
        self._make_room(length or 0, 0)

    def handleContentChunk(self, data: bytes) -> None:
        """Take a part of a body, or drop it."""
        if self._publishes and self._make_room(self._held_bytes + len(data), len(data)):
            self.body.append(data)

    def _make_room(self, size: int, more: int) -> bool:
        """Whether the body may have so many bytes. What is kept of all bodies counts as buffered."""
        load = self.channel.core.load
        if size > self.channel.core.limits.message_bytes_max:
            self.excess = REQUEST_ENTITY_TOO_LARGE
        elif load.must_wait(size, 0):
            self.excess = self.excess or SERVICE_UNAVAILABLE
        if self.excess:
            self._let_go()
            return False
        self._held_bytes += more
        load.change(more)
        return True

    def _let_go(self) -> None:
        self.body.clear()
        held, self._held_bytes = self._held_bytes, 0
        self.channel.core.load.change(-held)

    def connectionLost(self, reason: Failure) -> None:
        """The peer is gone, with its request or before it was whole."""
        self.is_gone = True
        self._let_go()
        super().connectionLost(reason)

    def finish(self) -> None:
        """The request is answered."""
        self._let_go()
        super().finish()

    def process(self) -> None:
        """Serve the request, or answer why not."""
        self.channel.begins()
        for name, value in _HEADERS.items():
            self.setHeader(name, value)
        if self.channel.is_spare:
            self.setHeader(b"connection", b"close")
        headers = {name: self.getHeader(name) or "" for name in ("sec-fetch-site", "sec-fetch-dest", "origin")}
        stated = self.requestHeaders.getRawHeaders("host", [])
        refused = refusal(self.method, stated, headers, self.channel.site.hosts, publishes=self._publishes)
        self.is_from_page = bool(headers["origin"] or headers["sec-fetch-site"])
        if refused is None:
            super().process()
            return
        code, reason = refused
        body = refuse(self, code, reason)
        if code == NOT_ALLOWED:
            self.setHeader(b"allow", b"GET, HEAD")
        self.setHeader(b"content-length", b"%d" % len(body))
        self.write(body)
        self.finish()

    def render(self, resrc: Any) -> None:
        """Render a resource. HEAD is answered as GET is, without the body: that is nothing to warn of."""
        if self.method != b"HEAD":
            super().render(resrc)
            return
        body = resrc.render(self)
        if body is not NOT_DONE_YET:
            if body:
                self.setHeader(b"content-length", b"%d" % len(body))
            self.finish()


def refuse(request: Request, code: int, reason: str) -> bytes:
    """Answer with this status, and a reason in one line."""
    request.setResponseCode(code, b"Misdirected Request" if code == _MISDIRECTED else None)
    request.setHeader(b"content-type", TEXT)
    return f"{reason}\n".encode()


class Channel(Permitted, HTTPChannel):
    """A connection of the site: it is counted and identified, and closed where its peer does not take its answers."""

    site: HttpSite
    is_spare = False
    """Whether it is one of the connections beyond the limit, which get one answer, and only on the daemon's health."""
    _untaken = False
    _left = False

    def __init__(self, core: Core) -> None:
        Permitted.__init__(self, core)
        HTTPChannel.__init__(self)

    def connectionMade(self) -> None:
        super().connectionMade()
        self.site.joined(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        self._leave()

    def _leave(self) -> None:
        if not self._left:
            self._left = True
            self.site.left(self)

    def give_way(self) -> None:
        """Close at once to make room for another connection. From now on this one does not count."""
        self.count_cut_off("idle")
        self._leave()
        self.abort()

    def resetTimeout(self) -> None:
        """Do not restart the timeout at each byte: a peer could send one a minute, and never ask anything."""

    def timeoutConnection(self) -> None:
        """Close an idle connection in order, or at once where the peer does not take the rest."""
        self.count_cut_off("idle")
        self._abortingCall = self.callLater(self.abortTimeout, self.forceAbortClient)
        self.loseConnection()

    def forceAbortClient(self) -> None:
        """Abort an idle connection whose peer does not take its end."""
        self._abortingCall = None
        self.abort()

    @property
    def is_publishing(self) -> bool:
        """Whether the request whose head has come would publish; it does not know itself before its body has come."""
        return bool(self._command == b"POST" and self._path.startswith(PUBLISHED))

    def admit(self, size: int) -> Deferred[None] | None:
        """Room for a large message that is read for the peer, see `Load.take_room`."""
        self.core.load.leave_room(self)
        return self.core.load.take_room(self, size)

    def hurry_peer(self) -> None:
        """Others wait for room. An answer is written at once, so there is nothing to hurry."""

    def begins(self) -> None:
        """Note that a request has begun and waits for its answer."""
        self.site.is_busy(self)
        if self.is_spare:
            self.persistent = False

    def pauseProducing(self) -> None:
        """Stop reading: the peer does not take its answers."""
        self._untaken = True
        super().pauseProducing()

    def resumeProducing(self) -> None:
        """Go on reading."""
        self._untaken = False
        super().resumeProducing()

    def requestDone(self, request: Any) -> None:
        """Go on with the next request, unless earlier answers are still in the buffer."""
        if self._untaken:
            # A thousand requests fit into what is read at once, and their answers would all be kept.
            self.persistent = False
        self.site.is_idle(self)
        super().requestDone(request)

    def explain(self, error: NotAllowed) -> str:
        """Count a refusal by the rules of access, and say in a sentence how that could change."""
        self.note(error)
        called = " or ".join(f'"{name}"' for name in peer_of(self.transport).called())
        whom = f" with {called} as who" if called else ""
        return f"{error}: ask whoever runs streamd for a rule{whom}, see [[access]] in streamd.toml"

    def drain(self) -> None:
        """End the connection when what was written has been taken, since the daemon ends."""
        self.loseConnection()

    def abort(self) -> None:
        """Close at once."""
        self.transport.abortConnection()
