"""Addresses: paths of local files, and `s3://bucket/key`, for which `s3a://` is another spelling."""

import os
from pathlib import Path

from pststream import names
from pststream.errors import UsageError


def normal(address: str | os.PathLike[str]) -> str:
    """The one spelling of an address: `s3://bucket/prefix` without a slash at its end, or an absolute path."""
    text = os.fspath(address)
    if not text.startswith(names.IN_BUCKETS):
        return str(Path(text).absolute())
    bucket, _, prefix = text.partition("://")[2].partition("/")
    parts = prefix.rstrip("/").split("/") if prefix.rstrip("/") else []
    if not bucket or any(part in ("", ".", "..") for part in parts):
        raise UsageError(f"{address}: no place in a bucket", "give s3://bucket/prefix")
    return names.BUCKETS + "/".join([bucket, *parts])


def in_bucket(address: str) -> bool:
    """Whether it is an address in a bucket."""
    return address.startswith(names.BUCKETS)


def split(address: str) -> tuple[str, str]:
    """Bucket and key, or prefix, of an address in a bucket."""
    bucket, _, key = address.removeprefix(names.BUCKETS).partition("/")
    return bucket, key
