"""The storage for s3:// addresses: small files, objects to ingest, Arrow and Delta locations of a bucket prefix."""

import os
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from pyarrow.fs import AwsStandardS3RetryStrategy, FileSystem, S3FileSystem

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.base.mask_urls import mask_url
from pststream.storage import aws
from pststream.storage.contract import ConditionalFiles, DeltaLocation, Files, ObjectStore
from pststream.storage.s3_bucket import PREFIX, S3Bucket

ARROW_TRIES = 10
"""Number of times that Arrow tries a request that gets no answer or HTTP 5xx."""


class S3:
    """S3 as a storage; see `contract.Storage`."""

    is_remote = True
    has_leases = True
    # Opening a table costs a request for each commit since the last checkpoint.
    table_properties = {"delta.checkpointInterval": "10"}
    # Each heartbeat is a request that costs money. A change of state is written at once.
    heartbeat_seconds = 10.0
    turn_seconds = 0.5
    task_error_marks = ("AWS Error",)

    def normalize(self, address: str | os.PathLike[str]) -> str:
        """Return `s3://bucket/prefix` without a slash at the end."""
        text = os.fspath(address)
        bucket, _, prefix = text.removeprefix(_spelled_prefix(text)).partition("/")
        parts = prefix.rstrip("/").split("/") if prefix.rstrip("/") else []
        if not bucket or any(part in ("", ".", "..") for part in parts):
            raise UsageError(f"{mask_url(str(address))}: is no address in a bucket", "give s3://bucket/prefix")
        return PREFIX + "/".join([bucket, *parts])

    def local_path(self, address: str) -> Path | None:
        """Objects have no local path."""
        return None

    def files(self, address: str) -> Files:
        """Return the objects below a prefix as small files."""
        return S3Bucket(address)

    def conditional_files(self, address: str) -> ConditionalFiles:
        """Return the objects below a prefix as small files; S3 can write on condition of an ETag."""
        return S3Bucket(address)

    def objects(self, address: str) -> ObjectStore:
        """Return the objects to ingest below a prefix."""
        return S3Bucket(address)

    def file_system(self, address: str) -> tuple[FileSystem, str]:
        """Return Arrow's client of S3, with the credentials that boto3 resolves."""
        return _arrow_client(aws.resolve_credentials(address)), address.removeprefix(PREFIX)

    def new_file(self, address: str) -> tuple[FileSystem, str]:
        """Return the file system and path of a file: S3 has no folders to create."""
        return self.file_system(address)

    def delta_location(self, address: str) -> DeltaLocation:
        """Return the address, and the credentials that boto3 resolves as options of delta-rs."""
        credentials = aws.resolve_credentials(address)
        options = {
            "AWS_REGION": credentials.region,
            "AWS_ACCESS_KEY_ID": credentials.key,
            "AWS_SECRET_ACCESS_KEY": credentials.secret,
            "AWS_SESSION_TOKEN": credentials.token,
            "AWS_ENDPOINT_URL": credentials.endpoint,
            "AWS_ALLOW_HTTP": "true" if (credentials.endpoint or "").startswith("http://") else None,
        }
        return DeltaLocation(address, {name: value for name, value in options.items() if value is not None})

    def spark_uri(self, address: str) -> str:
        """Return the address with the prefix of Hadoop's client."""
        return "s3a://" + address.removeprefix(PREFIX)


STORAGE = S3()


def _spelled_prefix(text: str) -> str:
    return next(prefix for prefix in (PREFIX, *names.OTHER_PREFIXES) if text.startswith(prefix))


@lru_cache(maxsize=4)
def _arrow_client(credentials: aws.Credentials) -> S3FileSystem:
    parts = urlsplit(credentials.endpoint or "https://")
    return S3FileSystem(
        access_key=credentials.key,
        secret_key=credentials.secret,
        session_token=credentials.token,
        region=credentials.region,
        scheme=parts.scheme,
        endpoint_override=parts.netloc or None,
        connect_timeout=aws.CONNECT_SECONDS,
        request_timeout=aws.READ_SECONDS,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ARROW_TRIES),
    )
