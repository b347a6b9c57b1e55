"""Where an archive is: from a URI and the settings that Spark has for it to what `deltalake` and Arrow take."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import quote

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileSystem, PyFileSystem, resolve_s3_region

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_S3: Final = ("s3a", "s3", "s3n")

_KEYS: Final = {
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
    "endpoint.region": "AWS_REGION",
}
"""Hadoop's settings, each behind ``fs.s3a.``, and what deltalake calls them."""

_ANONYMOUS: Final = "AnonymousAWSCredentialsProvider"

APART: Final = "@"
"""The directory for tables whose names Delta's libraries can't open. Percent-encoding never gives this name."""

_RESERVED: Final = {".": "%2E", "..": "%2E%2E", "_streamd": "%5Fstreamd"}
"""Names that a directory of an archive can't have: the last one is that of archives before Delta."""

_NAME_BYTES_MAX: Final = 255


class ArchiveError(Exception):
    """An archive that can't be used or continued. The text says what to do."""


class Location(NamedTuple):
    """A directory, local or in a bucket, with what it takes to get there. Tasks are told of it."""

    uri: str
    """An absolute path, or ``s3://BUCKET/DIRECTORY``."""
    options: tuple[tuple[str, str], ...] = ()
    """Storage options of deltalake. There are keys among them."""

    @property
    def is_local(self) -> bool:
        """Whether it is a directory of this machine."""
        return self.uri.startswith("/")

    @property
    def delta_uri(self) -> str:
        """The URI for deltalake, which takes a local path for a quoted one."""
        return Path(self.uri).as_uri() if self.is_local else self.uri

    @property
    def spark_uri(self) -> str:
        """The URI for Spark, which quotes nothing and has its own word for S3."""
        return f"file://{self.uri}" if self.is_local else self.uri.replace("s3://", "s3a://", 1)

    @property
    def storage_options(self) -> dict[str, str]:
        """The options as deltalake takes them."""
        return dict(self.options)

    def at(self, directory: str) -> Location:
        """A directory below this one."""
        return self._replace(uri=f"{self.uri}/{directory}")

    def make(self) -> None:
        """Make a local directory, durably. Buckets have none."""
        made = [path for path in (Path(self.uri), *Path(self.uri).parents) if not path.exists()]
        for path in reversed(made if self.is_local else []):
            path.mkdir(exist_ok=True)
            sync(path.parent)

    def link(self, name: str, directory: str) -> None:
        """Give a directory below this one a second name, durably. Buckets have no links."""
        if self.is_local:
            try:
                os.symlink(directory, Path(self.uri, name))
            except FileExistsError:
                return
            sync(Path(self.uri))

    def files(self) -> FileSystem:
        """The files below this directory, for Arrow."""
        self.make()
        return PyFileSystem(DeltaStorageHandler(self.delta_uri, self.storage_options))

    def names(self) -> set[str]:
        """The names of the files and directories in this directory; none where it does not exist."""
        if self.is_local:
            return set(os.listdir(self.uri)) if os.path.isdir(self.uri) else set()
        found = self.files().get_file_info(FileSelector("", allow_not_found=True))
        return {info.base_name for info in found}

    def remove(self) -> None:
        """Delete this directory with all that is in it, if it is there."""
        if self.is_local:
            shutil.rmtree(self.uri, ignore_errors=True)
            return
        files = self.files()
        for info in files.get_file_info(FileSelector("", recursive=True, allow_not_found=True)):
            if info.is_file:
                files.delete_file(info.path)

    def encoded(self) -> str:
        """This location as text, for an option of a source."""
        return json.dumps(self)

    @classmethod
    def decoded(cls, text: str) -> Self:
        """The location of such a text."""
        uri, options = json.loads(text)
        return cls(uri, tuple((name, value) for name, value in options))


def sync(path: Path) -> None:
    """Make a file or a directory durable: what is in it, not its own name."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def name_of(topic: str) -> str:
    """The name under which a topic's table is found in an archive: the topic's, percent-encoded; ArchiveError."""
    name = _RESERVED.get(topic) or quote(topic, safe="")
    if len(name) > _NAME_BYTES_MAX:
        raise ArchiveError(
            f"topic {topic[:40]!r}… can't be archived: its name takes {len(name)} bytes percent-encoded, and a "
            f"directory's at most {_NAME_BYTES_MAX}"
        )
    return name


def directory_of(topic: str) -> str:
    """The directory that holds a topic's table: `name_of` where Delta's libraries can open that, else one in `APART`.

    deltalake decodes the path of a table twice, so it can't open one with a ``%``. In `APART`, ``~`` stands for it.
    """
    name = name_of(topic)
    # Spark hides what begins with a dot or an underscore.
    if "%" not in name and name[0] not in "._":
        return name
    escaped = name.replace("~", "%7E").replace("%", "~")
    return f"{APART}/~{ord(escaped[0]):02X}{escaped[1:]}" if escaped[0] in "._" else f"{APART}/{escaped}"


def location_of(spark: SparkSession, uri: str) -> Location:
    """The location that a URI names for this session; ArchiveError where deltalake does not get there."""
    scheme, colon, rest = uri.partition("://")
    if not colon or scheme == "file":
        path = os.path.abspath(rest if colon else uri.removeprefix("file:"))
        if "%" in path:
            raise ArchiveError(
                f"{path} has a % in its name, which readers of Delta tables stumble over: choose another"
            )
        return Location(path)
    if scheme in _S3:
        bucket = rest.partition("/")[0]
        if not bucket:
            raise ArchiveError(f"{uri} names no bucket: give {scheme}://BUCKET/DIRECTORY")
        return Location(f"s3://{rest.rstrip('/')}", tuple(_s3(hadoop_settings(spark).get, bucket)))
    raise ArchiveError(
        f"{uri}: an archive is in a directory or in a bucket, s3a://…. HDFS and others that only Hadoop reaches are "
        "not supported: mount it as a directory, or copy the archive there"
    )


def hadoop_settings(spark: SparkSession) -> Any:
    """The settings that Spark reaches file systems with."""
    session: Any = spark
    return session._jsparkSession.sessionState().newHadoopConf()


def is_reached(spark: SparkSession, location: Location) -> bool:
    """Whether Spark itself reads files there: for S3 it needs a connector."""
    from py4j.protocol import Py4JJavaError

    session: Any = spark
    scheme = location.spark_uri.partition("://")[0]
    try:
        session._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, hadoop_settings(spark))
    except Py4JJavaError:
        return False
    return True


def refuse_connect(spark: SparkSession) -> None:
    """ArchiveError for a session of Spark Connect, which has no access to what the archive needs."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ArchiveError(
            "archives need a classic Spark session, and this one is of Spark Connect: use streamd.spark.session(…) or "
            "streamctl archive. Through Connect, read the Delta tables or format('streamd')"
        )


def _s3(setting: Callable[[str], str | None], bucket: str) -> Iterator[tuple[str, str]]:
    """Spark's settings for a bucket as storage options. What is not set is found where AWS's tools find it."""

    def find(key: str) -> str | None:
        # What is set for one bucket wins, as with Hadoop.
        return setting(f"fs.s3a.bucket.{bucket}.{key}") or setting(f"fs.s3a.{key}")

    for key, name in _KEYS.items():
        if value := find(key):
            yield name, value
    if (find("aws.credentials.provider") or "").endswith(_ANONYMOUS):
        yield "AWS_SKIP_SIGNATURE", "true"
    endpoint = find("endpoint")
    if endpoint:
        secure = find("connection.ssl.enabled") != "false"
        yield "AWS_ENDPOINT_URL", endpoint if "://" in endpoint else f"{'https' if secure else 'http'}://{endpoint}"
        yield "AWS_ALLOW_HTTP", "true"
        yield "AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "false" if find("path.style.access") == "true" else "true"
    elif not find("endpoint.region"):
        try:
            yield "AWS_REGION", resolve_s3_region(bucket)
        except OSError:
            # deltalake has ways of its own to find out.
            pass
