"""The web side of the daemon: the dashboard, ``/metrics``, ``/healthz`` and ``/readyz``.

Nothing can be changed from here. `guard` decides which requests are answered and `site` by what. `exposition` speaks to
Prometheus, `health` says whether the daemon is ready. `events` is the one stream that a page of the dashboard reads,
made from what `sampling`, `survey` and `records` find; `static` holds the page itself.
"""
