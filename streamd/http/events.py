"""``/events``: all that one page of the dashboard shows, as one stream of server-sent events.

Each second brings one event with everything that has changed. A peer that does not take its events gets no new ones
until it has, so that what is kept for it is bounded; one that takes nothing for long is cut off. The rights of the peer
are looked up for each event; where it has none left, the last event, of the type ``refused``, says why.

``/events?search=…&sort=…&page=…`` is for the overview, ``/events?segment=…&from=…`` for one segment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from twisted.web.http import BAD_REQUEST, FORBIDDEN, SERVICE_UNAVAILABLE
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET
from zope.interface import implementer

from streamd.access.permits import NotAllowed, Permits
from streamd.connections.core import Core
from streamd.http.guard import NAME, Channel, Guard, refuse
from streamd.http.sampling import Sampler
from streamd.http.survey import Survey
from streamd.http.views import BadQuestion, Overview, SegmentView, arguments_of, number_of, query_of
from streamd.loop import Loop

EVENT_SECONDS: Final = 1.0

# A browser that lost the stream asks again after this.
_RETRY_SECONDS: Final = 3.0

# A peer that has taken nothing for so long is gone, or does not want it.
_STUCK_SECONDS_MAX: Final = 60.0


class View(Protocol):
    """The content of a page."""

    def allow(self, permits: Permits) -> None:
        """Raise NotAllowed where a peer with these permits may see nothing of the page."""

    async def event(self, permits: Permits) -> Mapping[str, Any]:
        """The content of the page now, for a peer with these permits."""

    def sent(self) -> None:
        """Note that the last event was sent: the next one need not repeat it."""


@implementer(IPushProducer)
class Stream:
    """The stream of events of one page."""

    def __init__(self, request: Guard, view: View, core: Core, on_end: Callable[[Stream], None]) -> None:
        self._request = request
        self._channel: Channel = request.channel
        self._view = view
        self._core = core
        self._on_end = on_end
        self._stuck_since: float | None = None
        self._over = False
        self._loop = Loop("events", self._tick, core.clock, core.loops)
        request.notifyFinish().addBoth(self._ended)

    def start(self) -> None:
        """Send the first event, and then one each second."""
        self._request.setHeader(b"content-type", b"text/event-stream; charset=utf-8")
        self._request.write(b"retry: %d\n\n" % (_RETRY_SECONDS * 1000))
        self._request.registerProducer(self, True)
        self._loop.start(EVENT_SECONDS)

    def end(self) -> None:
        """Send no more events: the daemon ends, or the peer has lost its rights."""
        self._stop()
        self._request.unregisterProducer()
        self._request.finish()

    def pauseProducing(self) -> None:
        """Stop sending: the peer has not taken what was sent."""
        self._stuck_since = self._core.clock.seconds()

    def resumeProducing(self) -> None:
        """Go on sending."""
        self._stuck_since = None

    def stopProducing(self) -> None:
        """End the stream: the peer is gone."""

    async def _event(self) -> None:
        permits = self._channel.permits
        try:
            self._view.allow(permits)
        except NotAllowed as error:
            reason = json.dumps(self._channel.explain(error))
            self._request.write(b"event: refused\ndata: %s\n\n" % reason.encode())
            self.end()
            return
        event = await self._view.event(permits)
        # Where the rules have changed meanwhile, it may show what the new ones forbid: the next one goes by those.
        if not self._over and self._stuck_since is None and not permits.is_stale:
            self._request.write(b"data: %s\n\n" % json.dumps(event).encode())
            self._view.sent()

    def _tick(self) -> Deferred[None] | None:
        if self._stuck_since is None:
            return Deferred.fromCoroutine(self._event()).addErrback(self._failed)
        if self._core.clock.seconds() - self._stuck_since > _STUCK_SECONDS_MAX:
            # Not in order: that would wait for the peer to take the rest.
            self._channel.abort()
        return None

    def _failed(self, failure: Failure) -> None:
        """End the stream after a bug; the page connects again."""
        if not self._over:
            self._loop.failed(failure)
            self._stop()
            self._request.loseConnection()

    def _ended(self, _: object) -> None:
        self._stop()
        self._on_end(self)

    def _stop(self) -> None:
        self._over = True
        self._loop.stop()


class Events(Resource):
    """The resource of ``/events``: begins a stream for each page that asks for one, up to a limit."""

    isLeaf = True

    def __init__(self, core: Core, sampler: Sampler, survey: Survey, streams_max: int) -> None:
        super().__init__()
        self._core = core
        self._sampler = sampler
        self._survey = survey
        self._streams_max = streams_max
        self._streams: set[Stream] = set()

    def render_GET(self, request: Guard) -> bytes | int:
        """Begin a stream, or say why not."""
        if len(self._streams) >= self._streams_max:
            self._core.load.traffic_of(NAME).requests_refused["streams"] += 1
            return refuse(request, SERVICE_UNAVAILABLE, "too many pages are open, see http.streams_max")
        try:
            view = self._view(arguments_of(request))
            view.allow(request.channel.permits)
        except BadQuestion as error:
            return refuse(request, BAD_REQUEST, str(error))
        except NotAllowed as error:
            return refuse(request, FORBIDDEN, request.channel.explain(error))
        if request.method == b"HEAD":
            return b""
        stream = Stream(request, view, self._core, self._streams.discard)
        self._streams.add(stream)
        stream.start()
        return NOT_DONE_YET

    def end(self) -> None:
        """End all streams, since the daemon ends."""
        for stream in list(self._streams):
            stream.end()

    def _view(self, arguments: Mapping[str, str]) -> View:
        name = arguments.get("segment")
        if name is None:
            return Overview(self._core, self._sampler, self._survey, query_of(arguments))
        first = number_of(arguments, "from", 0) if "from" in arguments else None
        return SegmentView(self._core, self._sampler, self._survey, name, first)
