"""Create S3 clients, resolve AWS credentials for Arrow and delta-rs, and translate botocore's errors; sinks use it too.

Endpoint, region and credentials come from AWS's standard chain alone. boto3 resolves them for the clients of Arrow and
delta-rs too, because these support only a part of the chain.
"""

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

from pststream.base.errors import PstError, RetryableError, UsageError
from pststream.base.texts import is_loopback, mask_url
from pststream.storage.contract import ObjectChanged

CONNECT_SECONDS = 10
READ_SECONDS = 30
NO_CREDENTIALS = "provide them through AWS's standard chain: environment, profile or role"


@dataclass(frozen=True)
class Credentials:
    """Region, endpoint and keys for clients that are not boto3's; `endpoint` None: AWS's own."""

    region: str
    endpoint: str | None
    key: str
    secret: str = field(repr=False)
    token: str | None = field(repr=False)


def new_session() -> boto3.session.Session:
    """Return a new session with AWS_REGION, which boto3 does not read; the default session is not thread-safe."""
    return boto3.session.Session(region_name=os.environ.get("AWS_REGION") or None)


def resolve_credentials(address: str) -> Credentials:
    """Return endpoint, region and keys that are valid now; botocore renews keys before they expire.

    Raises UsageError without credentials, and for plain HTTP to another machine.
    """
    session, s3 = open_session(address)
    with translate_errors(address, s3):
        credentials = session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        frozen = credentials.get_frozen_credentials()
    url, region = s3.meta.endpoint_url, s3.meta.region_name
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "http" and not is_loopback(host):
        raise UsageError(
            f"{address}: {mask_url(url)} is plain HTTP to another machine", "give an endpoint with https://"
        )
    own = host.endswith((".amazonaws.com", ".amazonaws.com.cn"))
    region = "us-east-1" if region in (None, "aws-global") else region
    return Credentials(region, None if own else url, frozen.access_key, frozen.secret_key, frozen.token)


def open_session(address: str) -> tuple[Any, Any]:
    """Return a session and its S3 client, the same ones as long as the environment does not change."""
    environment = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))
    try:
        return _new_session(environment, CONNECT_SECONDS, READ_SECONDS)
    except (BotoCoreError, ValueError) as error:
        raise UsageError(
            f"{address}: the environment of AWS cannot be used ({type(error).__name__})",
            "correct AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (http:// or https://), AWS_REGION, AWS_PROFILE",
        ) from None


@lru_cache(maxsize=4)
def _new_session(environment: object, connect_seconds: float, read_seconds: float) -> tuple[Any, Any]:
    session = new_session()
    return session, session.client("s3", config=Config(connect_timeout=connect_seconds, read_timeout=read_seconds))


@contextmanager
def translate_errors(address: str, s3: Any, has_answered: bool = False) -> Iterator[None]:
    """Raise errors of botocore as errors with advice, and without any part of the signed request.

    has_answered: whether the credentials were right before; a refusal then may pass, as when they are renewed
    """
    try:
        yield
    except ClientError as error:
        raise _translated(address, error, has_answered) from None
    except (NoCredentialsError, PartialCredentialsError, ProfileNotFound) as error:
        raise UsageError(f"{address}: no credentials ({type(error).__name__})", NO_CREDENTIALS) from None
    except ParamValidationError:
        raise UsageError(f"{address}: not a valid bucket or key", "give s3://bucket/prefix") from None
    except BotoCoreError as error:
        raise RetryableError(
            f"{address}: {type(error).__name__} at {mask_url(s3.meta.endpoint_url)}",
            "run this again; the endpoint is that of AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or AWS's own",
        ) from None


def error_of(fault: dict[str, str], operation: str) -> ClientError:
    """Return the error that an answer with status 200 reports for one of its objects."""
    status = 403 if fault.get("Code") == "AccessDenied" else 500
    return ClientError({"Error": fault, "ResponseMetadata": {"HTTPStatusCode": status}}, operation)


def status_of(error: ClientError) -> int:
    """Return the HTTP status of an answer."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500))


def is_absent(error: ClientError) -> bool:
    """Whether an answer says that the object does not exist."""
    return status_of(error) == 404 and code_of(error) != "NoSuchBucket"


def code_of(error: ClientError) -> str:
    """Return the error code of an answer, or its HTTP status if it has none."""
    return str(error.response.get("Error", {}).get("Code", "")) or str(status_of(error))


def _translated(address: str, error: ClientError, has_answered: bool) -> PstError:
    """Return the error for an answer of the server, with the code of the answer and nothing else of it."""
    status, code = status_of(error), code_of(error)
    if code == "NoSuchBucket":
        return UsageError(f"{address}: there is no such bucket", "create it, or correct the address or the endpoint")
    if code == "NoSuchKey" or status in (409, 412):
        return ObjectChanged(f"{address}: has changed or gone since it was listed")
    if (status >= 500 and status != 501) or status == 429 or code in ("RequestTimeout", "SlowDown"):
        return RetryableError(f"{address}: {code}", "the store is not available right now; run this again")
    if has_answered and (status in (401, 403) or code == "ExpiredToken"):
        hint = "the store has accepted these credentials before; run this again, or renew them"
        return RetryableError(f"{address}: {code}", hint)
    if status in (401, 403):
        hint = "grant s3:ListBucket on the bucket and s3:GetObject on its objects"
        return UsageError(f"{address}: {code}", f"{hint}; for a home also s3:PutObject and s3:DeleteObject")
    return UsageError(f"{address}: {code}", "check that AWS_REGION and the endpoint are those of the bucket")
