"""Objects of a bucket, by boto3: listed, read, copied. Endpoint, region and credentials: by the standard chain alone.

What can be tried again (no answer, HTTP 5xx, a body that was cut) botocore tries some times, and a body is asked for
some times more, since botocore does not; then it is a RetryableError.
"""

import datetime as dt
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
)

from pststream import names
from pststream.errors import PstError, RetryableError, UsageError

CONNECT_SECONDS = 10
READ_SECONDS = 30
BODY_TRIES = 3
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Stored:
    """An object as it was listed; the ETag stands without its quotes."""

    key: str
    etag: str
    bytes: int
    modified: dt.datetime


class Changed(RetryableError):
    """An object is not, or not any more, what was listed."""


class Bucket:
    """A bucket, and the prefix of it that an address names."""

    def __init__(self, address: str) -> None:
        parts = address.removeprefix(names.BUCKETS).split("/", 1)
        if not parts[0]:
            raise UsageError(f"{address} names no bucket", "give s3://bucket/prefix")
        self.name = parts[0]
        self.prefix = parts[1] if len(parts) > 1 else ""
        self._client = _client(address)

    def address(self, key: str) -> str:
        """The address of an object."""
        return f"{names.BUCKETS}{self.name}/{key}"

    def below(self, prefix: str) -> list[Stored]:
        """All objects whose keys begin with `prefix`, sorted by key."""
        return sorted(map(_stored, self._pages("list_objects_v2", "Contents", prefix)), key=lambda one: one.key)

    def only(self, key: str) -> Stored | None:
        """The object of this key; None if there is none."""
        with self._told(key):
            found = self._client.list_objects_v2(Bucket=self.name, Prefix=key, MaxKeys=1).get("Contents", [])
        return _stored(found[0]) if found and found[0]["Key"] == key else None

    def uploads(self, prefix: str) -> list[tuple[str, dt.datetime]]:
        """Key and beginning of the multipart uploads below `prefix` that were neither completed nor aborted."""
        found = self._pages("list_multipart_uploads", "Uploads", prefix)
        return [(upload["Key"], upload["Initiated"]) for upload in found]

    def read(self, stored: Stored, most: int) -> bytes:
        """The first `most` bytes of an object; raises as `copy`."""
        with self._told(stored.key), self._body(stored) as body:
            content: bytes = body.read(most)
        return content

    def copy(self, stored: Stored, file: IO[bytes]) -> str:
        """Write an object's content into an empty file; returns its hexadecimal SHA-256.

        Raises Changed if it is not as listed, RetryableError if it could not be read now, UsageError if it never can.
        """
        for attempt in range(1, BODY_TRIES + 1):
            file.seek(0)
            file.truncate()
            with self._told(stored.key), self._body(stored) as body:
                try:
                    return self._copied(body, stored, file)
                except BotoCoreError:
                    if attempt == BODY_TRIES:
                        raise
            time.sleep(attempt / 2)
        raise AssertionError("unreachable")

    def _copied(self, body: Any, stored: Stored, file: IO[bytes]) -> str:
        digest, size = hashlib.sha256(), 0
        while block := body.read(_BLOCK):
            digest.update(block)
            file.write(block)
            size += len(block)
        if size != stored.bytes:
            raise Changed(f"{self.address(stored.key)}: {size} bytes came, {stored.bytes} were listed")
        return digest.hexdigest()

    @contextmanager
    def _body(self, stored: Stored) -> Iterator[Any]:
        found = self._client.get_object(Bucket=self.name, Key=stored.key, IfMatch=f'"{stored.etag}"')
        # Entered by itself it would hand out urllib3's stream, which does not mind being cut.
        with closing(found["Body"]) as body:
            if found["ETag"].strip('"') != stored.etag:
                raise Changed(f"{self.address(stored.key)}: has changed since it was listed")
            yield body

    def _pages(self, operation: str, items: str, prefix: str) -> Iterator[dict[str, Any]]:
        with self._told(prefix):
            for page in self._client.get_paginator(operation).paginate(Bucket=self.name, Prefix=prefix):
                yield from page.get(items, [])

    @contextmanager
    def _told(self, key: str) -> Iterator[None]:
        """Turn what botocore raises into errors that say what to do, and never what was signed."""
        address = self.address(key)
        try:
            yield
        except ClientError as error:
            raise _refusal(address, error) from None
        except (NoCredentialsError, PartialCredentialsError, ProfileNotFound) as error:
            raise UsageError(
                f"{address}: no credentials ({type(error).__name__})",
                "give them as AWS's standard chain finds them: by the environment, a profile, or a role",
            ) from None
        except ParamValidationError:
            raise UsageError(f"{address}: no such bucket or key can be", "give s3://bucket/prefix") from None
        except BotoCoreError as error:
            raise RetryableError(
                f"{address}: {type(error).__name__} at {_shown(self._client.meta.endpoint_url)}",
                "run this again; the endpoint is that of AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or AWS's own",
            ) from None


def _client(address: str) -> Any:
    """A client of a session of its own; boto3 itself does not read AWS_REGION."""
    try:
        session = boto3.session.Session(region_name=os.environ.get("AWS_REGION") or None)
        return session.client("s3", config=Config(connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS))
    except (BotoCoreError, ValueError) as error:
        raise UsageError(
            f"{address}: the environment of AWS cannot be used ({type(error).__name__})",
            "mend AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (http:// or https://), AWS_REGION, AWS_PROFILE",
        ) from None


def _stored(listed: dict[str, Any]) -> Stored:
    return Stored(listed["Key"], listed["ETag"].strip('"'), listed["Size"], listed["LastModified"])


def _refusal(address: str, error: ClientError) -> PstError:
    """The error for what the server has answered; only its code is told."""
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500))
    code = str(error.response.get("Error", {}).get("Code", "")) or str(status)
    told = f"{address}: {code}"
    if code == "NoSuchBucket":
        return UsageError(f"{address}: there is no such bucket", "make it, or mend the address or the endpoint")
    if code == "NoSuchKey" or status == 412:
        return Changed(f"{address}: has changed or gone since it was listed")
    if (status >= 500 and status != 501) or status == 429 or code in ("RequestTimeout", "SlowDown"):
        return RetryableError(told, "the store could not answer just now; run this again")
    if status in (401, 403):
        return UsageError(told, "ask for the rights s3:ListBucket on the bucket and s3:GetObject on what is in it")
    return UsageError(told, "look whether AWS_REGION and the endpoint are those of the bucket")


def _shown(url: str) -> str:
    """A URL without a user and a password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
