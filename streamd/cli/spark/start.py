"""What commands that run on Spark share: their options, and a session, or a line that says what is missing."""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from threading import Event
from typing import TYPE_CHECKING, Final

from streamd.cli.command import FAILED, SPARK, UNAVAILABLE, USAGE, CommandError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Nobody looks at a page of a command that ends.
_QUIET: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}

# How a traceback of Python's ends, and what looks like it and is Java's.
_RAISED: Final = re.compile(r"(\w+\.)*\w*(Error|Exception|Lost|Refused|Failed|Truncated|Segment): ")
_JAVA: Final = ("org.", "java.", "scala.", "py4j.")


# Spark says so of every version that is newer than itself; what is used here of pandas is tested.
_WARNING: Final = "PySpark does not yet fully support pandas"
warnings.filterwarnings("ignore", _WARNING, FutureWarning)


def add_spark_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that runs on Spark."""
    parser.add_argument("--master", default="local[*]", metavar="URL", help="the Spark cluster (default: %(default)s)")
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        type=_setting,
        metavar="KEY=VALUE",
        help="a setting of Spark; may be given more than once",
    )


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is no KEY=VALUE")
    return key, value


@contextmanager
def spark_session(name: str, options: argparse.Namespace, stop: Event | None = None) -> Iterator[SparkSession]:
    """A Spark session for one command. What goes wrong in Spark becomes a CommandError, unless it is to `stop`."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise missing(error)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from streamd.client.errors import ClientError
    from streamd.spark.archives.location import ArchiveError
    from streamd.spark.java import NoJava, quiet_java_home
    from streamd.spark.options import OptionError
    from streamd.spark.read.places import DataLost
    from streamd.spark.start import session
    from streamd.store.errors import StoreError

    os.environ.setdefault("PYTHONWARNINGS", f"ignore:{_WARNING}:FutureWarning")
    try:
        os.environ["JAVA_HOME"] = quiet_java_home()
        spark = session(name, options.master, {**_quiet(), **dict(options.conf)})
    except NoJava as error:
        raise CommandError(str(error), UNAVAILABLE)
    except (PySparkException, Py4JError, OSError) as error:
        raise CommandError(f"Spark did not start: {in_short(error)}", UNAVAILABLE)
    try:
        yield spark
    except OptionError as error:
        raise CommandError(str(error), USAGE)
    except (ArchiveError, DataLost, StoreError) as error:
        raise CommandError(str(error))
    except ClientError as error:
        raise CommandError(f"the daemon does not answer as it should: {error}", UNAVAILABLE)
    except (PySparkException, Py4JError, OSError) as error:
        raise CommandError(in_short(error), FAILED)
    finally:
        with gone_with(stop or Event()):
            spark.stop()


@contextmanager
def gone_with(stop: Event) -> Iterator[None]:
    """Once a command is to stop, that Spark fails is no error: a signal for all its processes ends Java as well."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, OSError):
        if not stop.is_set():
            raise


def _quiet() -> dict[str, str]:
    """Settings for a Spark that says nothing of itself: what is wrong is told by the command."""
    from pyspark.logger import PySparkLogger

    # Of each error it would print all that Java went through.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    log = files("streamd.spark") / "log4j2.properties"
    return {**_QUIET, "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file://{log}"}


def missing(error: ImportError) -> CommandError:
    """What to do where a package is not there."""
    text = f"this command runs on Spark, and {error.name} is not installed: {SPARK}"
    return CommandError(text, UNAVAILABLE)


def in_short(error: BaseException) -> str:
    """What an error of Spark says, without what it went through: of a Python task its last line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line) and not line.startswith(_JAVA)]
    if not raised:
        return lines[0] if lines else repr(error)
    # Our own errors say it all.
    return re.sub(r"^streamd\.[\w.]+: ", "", raised[-1])
