"""``/healthz``: the daemon is alive. ``/readyz``: it can be given work, or why it can't."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.web.http import SERVICE_UNAVAILABLE
from twisted.web.resource import Resource
from twisted.web.server import Request

from streamd.connections.core import Core

TEXT = b"text/plain; charset=utf-8"


def reason_not_ready(core: Core) -> str | None:
    """Why nothing should be asked of the daemon now, in a few words; None where it is ready.

    The store was recovered before anything listened, so no request comes before that.
    """
    if core.store.closing:
        return "the store is closing"
    if not core.serving():
        return "the daemon is starting or stopping"
    if core.store.read_only:
        return "the disk is full"
    compaction = core.store.compaction
    if core.store.waits_for_fold and compaction is not None and not compaction.running:
        return "writers wait for the compactor, which does not run"
    return None


class Healthz(Resource):
    """The resource of ``/healthz``: it answers, and that is all there is to say."""

    isLeaf = True

    def render_GET(self, request: Request) -> bytes:
        """One word."""
        request.setHeader(b"content-type", TEXT)
        return b"alive\n"


class Readyz(Resource):
    """The resource of ``/readyz``: 200 and ``ready``, or 503 and the reason."""

    isLeaf = True

    def __init__(self, core: Core) -> None:
        super().__init__()
        self._core = core

    def render_GET(self, request: Request) -> bytes:
        """One word, or one line."""
        request.setHeader(b"content-type", TEXT)
        reason = reason_not_ready(self._core)
        if reason is None:
            return b"ready\n"
        request.setResponseCode(SERVICE_UNAVAILABLE)
        return f"{reason}\n".encode()


def respond(request: Request, body: Deferred[bytes]) -> None:
    """Answer a request when a Deferred fires, unless the peer is gone by then."""
    gone: list[Failure] = []
    request.notifyFinish().addErrback(gone.append)

    def done(result: bytes | Failure) -> None:
        if gone:
            return
        if isinstance(result, Failure):
            request.processingFailed(result)
        else:
            request.setHeader(b"content-length", b"%d" % len(result))
            if request.method != b"HEAD":
                request.write(result)
            request.finish()

    body.addBoth(done)
