"""What makes ``format("streamd")`` known to every Spark session: Spark looks for packages of such a name."""

from __future__ import annotations

from streamd.spark.read.source import StreamdSource as DefaultSource

__all__ = ["DefaultSource"]
