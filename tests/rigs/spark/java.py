"""A Java that starts fast, for tests: ``python -m tests.rigs.spark.java FILE`` makes what it takes.

Most of the time that Spark takes to start goes into loading classes. Java can keep them as they are in memory, in an
archive that later ones map (class data sharing). ``make test`` has one made beside the virtual environment's files;
without it everything works, and takes longer.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

ARCHIVE: Final = Path(sys.prefix) / "spark.jsa"

_SECONDS_MAX: Final = 120.0

# Tests are over before a better compiler has paid for itself.
_FAST: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

OPTIONS: Final = f"{_FAST} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() and ARCHIVE.stat().st_size else _FAST
"""For every Java that tests start."""


def make(file: str) -> None:
    """Start Spark, let it do a little of everything, and keep the classes that it has loaded then."""
    import streamd.spark

    store = Path(__file__).parents[2] / "store" / "golden" / "v2" / "store"
    # The lines that tell of classes which can't be kept are of no use to anybody.
    options = f"{_FAST} -Xlog:cds=off -Xlog:cds+dynamic=off -XX:ArchiveClassesAtExit={file}"
    config = {"spark.ui.enabled": "false", "spark.log.level": "FATAL", "spark.driver.extraJavaOptions": options}
    spark = streamd.spark.session("classes", "local[2]", config)
    frame = spark.read.format("streamd").option("path", str(store)).option("topicPattern", ".*").load()
    frame.groupBy("topic").count().orderBy("topic").collect()
    spark.readStream.format("rate").load()
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    # Java writes it when it ends, which it does when nobody speaks to it any more.
    gateway.proc.stdin.close()
    gateway.proc.wait(_SECONDS_MAX)


if __name__ == "__main__":
    make(*sys.argv[1:])
