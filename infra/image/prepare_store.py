"""Make the bucket of landing files in the S3 gateway, and its users: producers only write, Airflow's jobs only read.

    prepare_store.py        safe to run again: it replaces secrets and policy

The environment has the gateway (AWS_ENDPOINT_URL_S3, AWS_REGION), the keys of its root user (AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY), the bucket (LANDING_BUCKET), and the keys of both users (PRODUCER_ACCESS_KEY,
PRODUCER_SECRET_KEY, LANDING_ACCESS_KEY, LANDING_SECRET_KEY). Users are made by the administration of Versity's gateway,
which signs requests as S3 does; the policy is one of S3. Exit codes: 0 done; 1 the gateway refused.
"""

import contextlib
import json
import os
import sys
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, ClientError
from botocore.httpsession import URLLib3Session

EXISTS = 409
FOLDERS = ("objects", "requests")


def main() -> int:
    """Make bucket, users and policy; return the exit code."""
    bucket = os.environ["LANDING_BUCKET"]
    users = {name: os.environ[f"{name}_ACCESS_KEY"] for name in ("PRODUCER", "LANDING")}
    if len({*users.values(), os.environ["AWS_ACCESS_KEY_ID"]}) < 3:
        print("prepare_store: root, producers and Airflow need different access keys", file=sys.stderr)
        return 1
    session = boto3.Session()
    try:
        for name, access in users.items():
            make_user(session, access, os.environ[f"{name}_SECRET_KEY"])
        store = session.client("s3")
        make_bucket(store, bucket)
        document = json.dumps(policy(bucket, writer=users["PRODUCER"], reader=users["LANDING"]))
        store.put_bucket_policy(Bucket=bucket, Policy=document)
    except (BotoCoreError, ClientError, OSError) as error:
        print(f"prepare_store: {error}", file=sys.stderr)
        return 1
    return 0


def policy(bucket: str, writer: str, reader: str) -> dict[str, Any]:
    """Return the policy of the bucket: the writer may write files and read nothing, the reader may read."""
    address = f"arn:aws:s3:::{bucket}"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "ProducersWrite",
                "Effect": "Allow",
                "Principal": {"AWS": [writer]},
                "Action": ["s3:PutObject", "s3:AbortMultipartUpload"],
                "Resource": [f"{address}/{folder}/*" for folder in FOLDERS],
            },
            {
                "Sid": "JobsRead",
                "Effect": "Allow",
                "Principal": {"AWS": [reader]},
                "Action": ["s3:GetObject", "s3:ListBucket", "s3:ListBucketMultipartUploads"],
                "Resource": [address, f"{address}/*"],
            },
        ],
    }


def make_bucket(store: Any, bucket: str) -> None:
    """Make the bucket, unless it is there."""
    with contextlib.suppress(store.exceptions.BucketAlreadyOwnedByYou, store.exceptions.BucketAlreadyExists):
        store.create_bucket(Bucket=bucket)


def make_user(session: Any, access: str, secret: str) -> None:
    """Make a user without any right of its own, or replace its secret. Raises OSError if the gateway refuses."""
    account = f"<Access>{escape(access)}</Access>{secret_and_role(secret)}"
    status, answer = send(session, "/create-user", f"<Account>{account}</Account>")
    if status == EXISTS:
        path = f"/update-user?access={quote(access, safe='')}"
        status, answer = send(session, path, f"<MutableProps>{secret_and_role(secret)}</MutableProps>")
    if status >= 400:
        raise OSError(f"user {access}: {status} {answer}")


def secret_and_role(secret: str) -> str:
    """Return the elements of a user that can be replaced."""
    return f"<Secret>{escape(secret)}</Secret><Role>user</Role>"


def send(session: Any, path: str, body: str) -> tuple[int, str]:
    """Send a signed request to the administration of the gateway; return status and answer."""
    request = AWSRequest("PATCH", os.environ["AWS_ENDPOINT_URL_S3"].rstrip("/") + path, data=body.encode())
    S3SigV4Auth(session.get_credentials(), "s3", session.region_name or "us-east-1").add_auth(request)
    response = URLLib3Session(proxies={}).send(request.prepare())
    return response.status_code, response.text


if __name__ == "__main__":
    sys.exit(main())
