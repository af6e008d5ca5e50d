"""Data files by Arrow's own file systems; that of a bucket is given what boto3 has found."""

from functools import lru_cache
from urllib.parse import urlsplit

import pyarrow.parquet as pq
from pyarrow.fs import AwsStandardS3RetryStrategy, FileSystem, FileType, LocalFileSystem, S3FileSystem

from pststream import names
from pststream.errors import RetryableError, UsageError
from pststream.storage import aws
from pststream.storage.addresses import in_bucket

TRIES = 10
"""Of a request that the store does not answer, or answers by 5xx."""

MOST_TOLD = 300

_LOCAL = LocalFileSystem()


def located(address: str) -> tuple[FileSystem, str]:
    """The file system of an address, and the path in it."""
    if not in_bucket(address):
        return _LOCAL, address
    return _bucket_system(aws.found(address)), address.removeprefix(names.BUCKETS)


@lru_cache(maxsize=4)
def _bucket_system(found: aws.Found) -> S3FileSystem:
    parts = urlsplit(found.endpoint or "https://")
    return S3FileSystem(
        access_key=found.key,
        secret_key=found.secret,
        session_token=found.token,
        region=found.region,
        scheme=parts.scheme,
        endpoint_override=parts.netloc or None,
        connect_timeout=aws.CONNECT_SECONDS,
        request_timeout=aws.READ_SECONDS,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=TRIES),
    )


def open_parquet(address: str) -> pq.ParquetFile:
    """A Parquet file; of a bucket in few, larger reads."""
    if not in_bucket(address):
        return pq.ParquetFile(address)
    system, path = located(address)
    return pq.ParquetFile(path, filesystem=system, pre_buffer=True)


def sizes(addresses: list[str]) -> list[int | None]:
    """Bytes of each file; None where it is not there."""
    if not addresses:
        return []
    system = located(addresses[0])[0]
    found = system.get_file_info([located(address)[1] for address in addresses])
    return [one.size if one.type == FileType.File else None for one in found]


def delete(addresses: list[str]) -> None:
    """Delete data files; one that is not there is none too many."""
    for address, size in zip(addresses, sizes(addresses)):
        if size is not None:
            system, path = located(address)
            system.delete_file(path)


def explain(error: Exception) -> None:
    """If an error of a task came from the store, raise what was raised there, as far as its text tells."""
    for line in map(str.strip, str(error).splitlines()):
        kind, _, text = line.partition(": ")
        if kind == "pststream.errors.UsageError" and text.startswith(names.BUCKETS):
            raise UsageError(text, "each node needs what the driver has (docs/cluster.md)") from None
        if "AWS Error" in line or (kind.startswith("pststream.") and text.startswith(names.BUCKETS)):
            raise RetryableError(f"a task could not use the store: {text[:MOST_TOLD]}", "run this again") from None
