"""An archive on a file system that Spark reaches and Arrow does not: HDFS, and all that has a connector of Hadoop's.

Only the driver has a way there from Python, through Spark's Java. So files of records are written by Spark too, and
given their names here.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from streamd.spark.archives.files import ArchiveError, Files, Location, temporary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOT_FOUND: Final = "java.io.FileNotFoundException"
_EXISTS: Final = "org.apache.hadoop.fs.FileAlreadyExistsException"


def hadoop_settings(spark: SparkSession) -> Any:
    """The settings that Spark reaches file systems with."""
    session: Any = spark
    return session._jsparkSession.sessionState().newHadoopConf()


def is_reached(spark: SparkSession, scheme: str) -> bool:
    """Whether Spark has a connector for such URIs."""
    session: Any = spark
    try:
        session._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, hadoop_settings(spark))
    except Py4JJavaError:
        return False
    return True


class HadoopFiles(Files):
    """All files below one URI; for the driver alone."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self.location = Location(self.uri)
        self._spark = spark
        session: Any = spark
        self._gateway = session.sparkContext._gateway
        self._hadoop = session._jvm.org.apache.hadoop.fs
        settings = hadoop_settings(spark)
        try:
            root = self._hadoop.Path(self.uri)
            self._system = root.getFileSystem(settings)
            # Beside the older interface, for its rename, which never replaces a file: on HDFS in one step.
            self._context = self._hadoop.FileContext.getFileContext(self._system.getUri(), settings)
        except Py4JJavaError as error:
            raise ArchiveError(f"{uri}: no place for an archive: {_told(error)}") from None

    def names(self, directory: str) -> list[str]:
        """The files and directories in a directory, sorted; none where it is not there."""
        try:
            with _errors():
                found = self._system.listStatus(self._path(directory))
        except FileNotFoundError:
            return []
        return sorted(each.getPath().getName() for each in found)

    def size(self, path: str) -> int:
        """The bytes of a file."""
        with _errors():
            return int(self._system.getFileStatus(self._path(path)).getLen())

    def rows(self, path: str) -> int | None:
        """How many rows a Parquet file has; None where it is not there, or not whole."""
        with _errors():
            if not self._system.exists(self._path(path)):
                return None
        try:
            return self._spark.read.schema("offset long").parquet(self.url(path)).count()
        except PySparkException:
            return None

    def read(self, path: str) -> bytes:
        """What a small file holds; FileNotFoundError."""
        with _errors():
            stream = self._system.open(self._path(path))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def create(self, path: str, data: bytes) -> None:
        """Make a small file that is not there yet; FileExistsError where it is."""
        made = self.beside(path)
        with _errors():
            stream = self._system.create(self._path(made), False)
            try:
                stream.write(data)
                if stream.hasCapability("hsync"):
                    stream.hsync()
            finally:
                stream.close()
        try:
            self.rename(made, path)
        finally:
            self.delete(made)

    def rename(self, path: str, target: str) -> None:
        """Give a file another name; FileExistsError where there is one of that name."""
        none = self._gateway.new_array(self._hadoop.Options.Rename, 0)
        with _errors():
            self._system.mkdirs(self._path(target).getParent())
            self._context.rename(self._path(path), self._path(target), none)

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it, if it is there."""
        with _errors():
            self._system.delete(self._path(path), True)

    def beside(self, path: str) -> str:
        """A name of nobody's for what is to be this file when it is whole."""
        directory, _, name = path.rpartition("/")
        return f"{directory}/{temporary(name)}{uuid.uuid4().hex}"

    def _path(self, path: str) -> Any:
        return self._hadoop.Path(self.url(path))


@contextmanager
def _errors() -> Iterator[None]:
    """Java's errors as those of Python."""
    try:
        yield
    except Py4JJavaError as error:
        kind = error.java_exception.getClass().getName()
        if kind == _NOT_FOUND:
            raise FileNotFoundError(_told(error)) from None
        if kind == _EXISTS:
            raise FileExistsError(_told(error)) from None
        raise ArchiveError(_told(error)) from None


def _told(error: Py4JJavaError) -> str:
    return str(error.java_exception.getMessage() or error.java_exception.toString())
