"""AWS's standard chain as boto3 follows it, and what its errors mean.

Endpoint, region and credentials come from there and nowhere else. Other clients of the same store, Arrow's and
delta-rs's, which find less than boto3 does, are given what it has found.
"""

import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
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

from pststream.errors import PstError, RetryableError, UsageError

CONNECT_SECONDS = 10
READ_SECONDS = 30
NO_CREDENTIALS = "give them as AWS's standard chain finds them: by the environment, a profile, or a role"


class Changed(RetryableError):
    """An object is not, or not any more, what was expected."""


@dataclass(frozen=True)
class Found:
    """What the chain has found for another client; `endpoint` None: AWS's own."""

    region: str
    endpoint: str | None
    key: str
    secret: str = field(repr=False)
    token: str | None = field(repr=False)


def client(address: str) -> Any:
    """A client of S3."""
    return _session(address)[1]


def found(address: str) -> Found:
    """Endpoint, region and credentials at this moment; those that expire are renewed by botocore.

    Raises UsageError without credentials, and for plain HTTP to another machine.
    """
    session, s3 = _session(address)
    with told(address, s3):
        credentials = session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        frozen = credentials.get_frozen_credentials()
    url, region = s3.meta.endpoint_url, s3.meta.region_name
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "http" and not _is_loopback(host):
        raise UsageError(f"{address}: {shown(url)} is plain HTTP to another machine", "give an endpoint with https://")
    own = host.endswith((".amazonaws.com", ".amazonaws.com.cn"))
    region = "us-east-1" if region in (None, "aws-global") else region
    return Found(region, None if own else url, frozen.access_key, frozen.secret_key, frozen.token)


def _session(address: str) -> tuple[Any, Any]:
    """A session and its client of S3, one in a process as long as the environment stays as it is."""
    environment = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))
    try:
        return _made(environment, CONNECT_SECONDS, READ_SECONDS)
    except (BotoCoreError, ValueError) as error:
        raise UsageError(
            f"{address}: the environment of AWS cannot be used ({type(error).__name__})",
            "mend AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (http:// or https://), AWS_REGION, AWS_PROFILE",
        ) from None


@lru_cache(maxsize=4)
def _made(environment: object, connect_seconds: float, read_seconds: float) -> tuple[Any, Any]:
    """As `_session`; boto3 itself does not read AWS_REGION."""
    session = boto3.session.Session(region_name=os.environ.get("AWS_REGION") or None)
    return session, session.client("s3", config=Config(connect_timeout=connect_seconds, read_timeout=read_seconds))


@contextmanager
def told(address: str, s3: Any) -> Iterator[None]:
    """Turn what botocore raises into errors that say what to do, and never what was signed."""
    try:
        yield
    except ClientError as error:
        raise _refusal(address, error) from None
    except (NoCredentialsError, PartialCredentialsError, ProfileNotFound) as error:
        raise UsageError(f"{address}: no credentials ({type(error).__name__})", NO_CREDENTIALS) from None
    except ParamValidationError:
        raise UsageError(f"{address}: no such bucket or key can be", "give s3://bucket/prefix") from None
    except BotoCoreError as error:
        raise RetryableError(
            f"{address}: {type(error).__name__} at {shown(s3.meta.endpoint_url)}",
            "run this again; the endpoint is that of AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or AWS's own",
        ) from None


def status_of(error: ClientError) -> int:
    """The HTTP status of an answer."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500))


def is_absent(error: ClientError) -> bool:
    """Whether it says that there is no such object."""
    return status_of(error) == 404 and code_of(error) != "NoSuchBucket"


def code_of(error: ClientError) -> str:
    """S3's code of an answer, or else its HTTP status."""
    return str(error.response.get("Error", {}).get("Code", "")) or str(status_of(error))


def _refusal(address: str, error: ClientError) -> PstError:
    """The error for what the server has answered; only its code is told."""
    status, code = status_of(error), code_of(error)
    if code == "NoSuchBucket":
        return UsageError(f"{address}: there is no such bucket", "make it, or mend the address or the endpoint")
    if code == "NoSuchKey" or status in (409, 412):
        return Changed(f"{address}: has changed or gone since it was listed")
    if (status >= 500 and status != 501) or status == 429 or code in ("RequestTimeout", "SlowDown"):
        return RetryableError(f"{address}: {code}", "the store could not answer just now; run this again")
    if status in (401, 403):
        hint = "ask for the rights s3:ListBucket on the bucket and s3:GetObject on what is in it"
        return UsageError(f"{address}: {code}", f"{hint}; for a home s3:PutObject and s3:DeleteObject too")
    return UsageError(f"{address}: {code}", "look whether AWS_REGION and the endpoint are those of the bucket")


def shown(url: str) -> str:
    """A URL without a user and a password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
