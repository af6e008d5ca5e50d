"""The users of the store of landing files: producers write and read nothing, Airflow's jobs read and write nothing."""

import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.moto_process import s3_gateway

PROGRAM = Path(__file__).parents[2] / "infra" / "image" / "prepare_store.py"
GATEWAY = os.environ.get("PSTSTREAM_TEST_GATEWAY") or shutil.which("versitygw")
ROOT, PRODUCER, READER = ("root", "secret of root"), ("producer&1", "secret <1>"), ("reader", "secret of reader")
BUCKET = "landing"


def test_the_policy_lets_producers_write_and_jobs_read_and_nothing_else() -> None:
    policy = runpy.run_path(str(PROGRAM))["policy"](BUCKET, writer="w", reader="r")
    writing, reading = policy["Statement"]
    assert (writing["Principal"], reading["Principal"]) == ({"AWS": ["w"]}, {"AWS": ["r"]})
    assert {one["Effect"] for one in policy["Statement"]} == {"Allow"}
    assert writing["Action"] == ["s3:PutObject", "s3:AbortMultipartUpload"]
    assert writing["Resource"] == ["arn:aws:s3:::landing/objects/*", "arn:aws:s3:::landing/requests/*"]
    assert not [action for action in reading["Action"] if not action.startswith(("s3:Get", "s3:List"))]


def test_users_that_are_the_same_are_refused() -> None:
    variables = environment("http://127.0.0.1:1") | {"PRODUCER_ACCESS_KEY": ROOT[0]}
    done = subprocess.run([sys.executable, PROGRAM], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "different access keys" in done.stderr


def environment(url: str) -> dict[str, str]:
    own = {"AWS_ENDPOINT_URL_S3": url, "AWS_REGION": "us-east-1", "LANDING_BUCKET": BUCKET}
    keys = {"AWS_ACCESS_KEY_ID": ROOT[0], "AWS_SECRET_ACCESS_KEY": ROOT[1]}
    for name, (access, secret) in (("PRODUCER", PRODUCER), ("LANDING", READER)):
        keys |= {f"{name}_ACCESS_KEY": access, f"{name}_SECRET_KEY": secret}
    return os.environ | own | keys


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[str]:
    """The gateway of infra/compose.yaml on loopback."""
    assert GATEWAY is not None
    with s3_gateway(GATEWAY, *ROOT, f"--iam-dir={tmp_path}") as url:
        yield url


def refused(call: Callable[..., Any], **arguments: Any) -> bool:
    """Whether the store refuses a request for want of rights."""
    try:
        call(Bucket=BUCKET, **arguments)
    except ClientError as error:
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 403, error
        return True
    return False


@pytest.mark.skipif(GATEWAY is None, reason="versitygw is not installed")
def test_the_gateway_keeps_the_policy(gateway: str) -> None:
    def store(access: str, secret: str) -> Any:
        keys = {"aws_access_key_id": access, "aws_secret_access_key": secret}
        return boto3.client("s3", endpoint_url=gateway, region_name="us-east-1", **keys)

    for _ in range(2):  # as at each start
        subprocess.run([sys.executable, PROGRAM], env=environment(gateway), check=True)
    producer, reader = store(*PRODUCER), store(*READER)
    file = {"Key": "objects/a.csv"}
    assert not refused(producer.put_object, **file, Body=b"1")
    upload = producer.create_multipart_upload(Bucket=BUCKET, Key="requests/b.jsonl")["UploadId"]
    assert not refused(producer.abort_multipart_upload, Key="requests/b.jsonl", UploadId=upload)
    for call, arguments in (
        (producer.put_object, {"Key": "others/a.csv"}),
        (producer.put_object, {"Key": "objects/../others/a.csv"}),
        (producer.get_object, file),
        (producer.head_object, file),
        (producer.copy_object, {"Key": "objects/b.csv", "CopySource": f"{BUCKET}/objects/a.csv"}),
        (producer.delete_object, file),
        (producer.list_objects_v2, {}),
        (producer.list_multipart_uploads, {}),
        (producer.get_bucket_policy, {}),
        (producer.put_bucket_policy, {"Policy": "{}"}),
        (reader.put_object, file),
        (reader.delete_object, file),
    ):
        assert refused(call, **arguments), call
    assert reader.get_object(Bucket=BUCKET, **file)["Body"].read() == b"1"
    assert [one["Key"] for one in reader.list_objects_v2(Bucket=BUCKET)["Contents"]] == ["objects/a.csv"]
    assert not refused(reader.list_multipart_uploads)
