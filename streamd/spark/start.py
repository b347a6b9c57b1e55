"""A Spark session that is set up right for streamd."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK: Final = "127.0.0.1"

PUSH_DOWN: Final = "spark.sql.python.filterPushdown.enabled"
"""Without it, Spark applies filters to what was read; with it, streamd reads less."""

_DEFAULTS: Final = {
    PUSH_DOWN: "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def session(name: str, master: str = "local[*]", config: Mapping[str, str] | None = None) -> SparkSession:
    """The Spark session of this process, made where there is none.

    Java is looked for first, see `java_home`. Spark listens on loopback alone, unless `config` names another
    ``spark.driver.host``, as it must for a cluster of several machines. Workers run the Python that runs this,
    unless PYSPARK_PYTHON says otherwise. Any setting in `config` wins over ours.
    """
    from pyspark.sql import SparkSession

    # Not above: ``python -m streamd.spark.java`` runs a module that nobody has imported before.
    from streamd.spark.java import java_home

    settings = dict(config or {})
    host = settings.setdefault("spark.driver.host", _LOOPBACK)
    if host == _LOOPBACK:
        settings.setdefault("spark.driver.bindAddress", _LOOPBACK)
        # Where it is not set, Spark looks up the name of the machine, and fails where nobody knows that name.
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkSession.getActiveSession() is None:
        os.environ["JAVA_HOME"] = java_home()
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**_DEFAULTS, **settings}.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    check_python(made)
    return made


def check_python(spark: SparkSession) -> None:
    """RuntimeError where the Python that Spark runs tasks with knows nothing of streamd: it would find no source."""
    context: Any = getattr(spark, "sparkContext", None)
    python = shutil.which(getattr(context, "pythonExec", sys.executable)) or ""
    if python == sys.executable or not str(getattr(context, "master", "")).startswith("local"):
        return
    ended = subprocess.run([python or "python3", "-c", "import pyspark_streamd"], capture_output=True, check=False)
    if ended.returncode:
        raise RuntimeError(
            f"Spark runs its tasks with {python or 'no Python at all'}, where streamd is not installed: set the "
            f"environment variable PYSPARK_PYTHON to {sys.executable} before Spark starts, or use streamd.spark.session"
        )
