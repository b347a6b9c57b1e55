"""What people and monitoring see of the daemon: the dashboard, ``/metrics``, ``/healthz`` and ``/readyz``.

Nothing can be changed from here. `guard` says who is let in and `site` to what, `exposition` speaks to Prometheus,
`health` says whether the daemon is ready; `events` is the one stream that a page of the dashboard reads, made of what
`sampling`, `survey` and `records` find out; `static` holds the page itself.
"""
