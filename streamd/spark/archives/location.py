"""From the URI of an archive, as Spark knows it, to its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyarrow.fs import resolve_s3_region

from streamd.spark.archives.arrow import ArrowFiles
from streamd.spark.archives.files import ArchiveError, Files, Location
from streamd.spark.archives.hadoop import HadoopFiles, hadoop_settings, is_reached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_S3: Final = ("s3a", "s3", "s3n")

_KEYS: Final = {
    "access.key": "access_key",
    "secret.key": "secret_key",
    "session.token": "session_token",
    "endpoint.region": "region",
}
"""What Hadoop calls what Arrow wants, each behind ``fs.s3a.``."""

_ANONYMOUS: Final = "AnonymousAWSCredentialsProvider"


def files_of(spark: SparkSession, uri: str) -> Files:
    """The files below a URI; ArchiveError where there is no way to get there.

    Local files and S3 are read and written through Arrow, by the tasks themselves, with the settings that Spark has
    for S3: so they need no connector of Hadoop's. All others are left to Spark.
    """
    scheme, colon, rest = uri.partition("://")
    if not colon or scheme == "file":
        return ArrowFiles(Location(uri))
    if scheme in _S3:
        bucket = rest.partition("/")[0]
        if not bucket:
            raise ArchiveError(f"{uri} names no bucket: give {scheme}://BUCKET/DIRECTORY")
        return ArrowFiles(Location(uri, tuple(_s3(hadoop_settings(spark).get, bucket))))
    if not is_reached(spark, scheme):
        raise ArchiveError(
            f"{uri}: Spark has no connector for {scheme}://. Name its package with --conf spark.jars.packages=…, or "
            "archive to a directory or to s3a://"
        )
    return HadoopFiles(spark, uri)


def _s3(setting: Callable[[str], str | None], bucket: str) -> Iterator[tuple[str, Any]]:
    """What Arrow has to know to get to a bucket as Spark would; what is not said it finds where AWS's tools do."""

    def found(key: str) -> str | None:
        # What is set for one bucket wins, as with Hadoop.
        return setting(f"fs.s3a.bucket.{bucket}.{key}") or setting(f"fs.s3a.{key}")

    for key, name in _KEYS.items():
        if value := found(key):
            yield name, value
    if (found("aws.credentials.provider") or "").endswith(_ANONYMOUS):
        yield "anonymous", True
    endpoint = found("endpoint")
    if not endpoint:
        if not found("endpoint.region"):
            yield from _region(bucket)
    else:
        secure = found("connection.ssl.enabled") != "false"
        yield "endpoint_override", endpoint if "://" in endpoint else f"{'https' if secure else 'http'}://{endpoint}"
        yield "force_virtual_addressing", found("path.style.access") != "true"


def _region(bucket: str) -> Iterator[tuple[str, Any]]:
    """Where AWS has a bucket. Where it does not say, Arrow has ways of its own to find out."""
    try:
        yield "region", resolve_s3_region(bucket)
    except OSError:
        pass
