"""One contract for small files, in a folder and in a bucket of a real server."""

import grp
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError, SSLError

from pststream.base.errors import PstError, RetryableError, UsageError
from pststream.storage import aws, s3
from pststream.storage.contract import Files
from pststream.storage.registry import files_at, normalize, storage_of
from pststream.storage.s3 import S3Bucket
from tests.bad_store import BUCKET, BadStore, is_body
from tests.bucket_home import store_on_loopback, use
from tests.moto_process import CREDENTIALS, free_port, moto_only


@pytest.fixture(scope="module")
def server() -> Iterator[BadStore]:
    with store_on_loopback() as store:
        yield store


@pytest.fixture
def address(server: BadStore, monkeypatch: pytest.MonkeyPatch) -> str:
    server.recover()
    monkeypatch.setattr(s3, "_ANSWERED", set())
    return use(server.url, monkeypatch)


@pytest.fixture(params=["folder", "bucket"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return files_at(str(tmp_path / "root") if request.param == "folder" else request.getfixturevalue("address"))


def test_what_is_written_is_read(files: Files, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.read("a.json")
    assert files.names() == [] and not files.exists("a.json")
    files.write("a.json", b"1")
    files.write("a.json", b"2")
    files.write("folder/1/b ü.csv", b"b")
    assert files.read("a.json") == b"2" and files.exists("folder/1/b ü.csv") and not files.exists("folder")
    assert files.names() == ["a.json", "folder/1/b ü.csv"] and files.names("folder") == ["folder/1/b ü.csv"]
    (part := tmp_path / "part").write_bytes(b"c")
    files.upload("folder/2/c", part)
    files.download("folder/2/c", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"c"
    with pytest.raises(FileNotFoundError):
        files.download("folder/3", tmp_path / "copy")
    files.delete(["folder/1/b ü.csv", "folder/2/c", "never/there"])
    files.delete([])
    assert files.names() == ["a.json"] and files.names("folder") == []


def test_a_file_is_created_once(files: Files) -> None:
    assert files.create("folder/1.json", b"first") and not files.create("folder/1.json", b"second")
    assert files.read("folder/1.json") == b"first" and files.names() == ["folder/1.json"]


def test_of_two_writers_on_a_condition_one_wins(address: str) -> None:
    files = S3Bucket(address)
    etag = files.write_if("lock", b"first", None)
    assert etag and files.write_if("lock", b"second", None) is None
    assert files.write_if("absent", b"", etag) is None
    won: list[int] = []

    def replace(number: int) -> None:
        if files.write_if("lock", f"next {number}".encode(), etag):
            won.append(number)

    threads = [threading.Thread(target=replace, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    version = files.version("lock")
    assert len(won) == 1 and version is not None and version.content == f"next {won[0]}".encode()
    assert 0 <= version.age < 30


def test_a_write_without_an_answer_is_looked_at(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some servers close the TLS connection when they refuse a write; after others an answer is lost."""
    files = S3Bucket(address)
    put, lost = files._client.put_object, SSLError(endpoint_url=address, error="EOF")

    def put_without_answer(**request: Any) -> None:
        with suppress(ClientError):
            put(**request)
        raise lost

    monkeypatch.setattr(files._client, "put_object", put_without_answer)
    etag = files.write_if("lock", b"first", None)
    version = files.version("lock")
    assert version is not None and version.etag == etag
    assert files.write_if("lock", b"second", None) is None
    newer = files.write_if("lock", b"third", etag)
    assert newer and files.read("lock") == b"third" and files.write_if("lock", b"fourth", etag) is None
    monkeypatch.setattr(files._client, "put_object", Mock(side_effect=lost))
    for name, condition in (("lock", newer), ("absent", None)):
        with pytest.raises(RetryableError):
            files.write_if(name, b"fifth", condition)


def test_a_body_that_breaks_off_is_asked_for_again(server: BadStore, address: str) -> None:
    files, faults = files_at(address), iter(["cut", "cut"])
    files.write("a", b"12345678")
    server.fault = lambda *request: next(faults, None) if is_body(*request) else None
    assert files.read("a") == b"12345678"


@pytest.mark.parametrize(
    ("given", "expected"),
    [("s3a://b1/x/", "s3://b1/x"), ("s3://b1", "s3://b1"), ("s3://b1/", "s3://b1"), ("/a/b", "/a/b")],
)
def test_one_spelling(given: str, expected: str) -> None:
    assert normalize(given) == expected


@pytest.mark.parametrize("given", ["s3://", "s3:///x", "s3://b1//x", "s3://b1/../x", "s3a://b1/./x"])
def test_no_place_in_a_bucket(given: str) -> None:
    with pytest.raises(UsageError):
        normalize(given)


def refusal(address: str) -> PstError:
    with pytest.raises(PstError) as found:
        files_at(address).read("home.json")
        aws.resolve_credentials(address)
    text = str(found.value)
    assert found.value.hint and not [secret for secret in CREDENTIALS.values() if len(secret) > 12 and secret in text]
    return found.value


def test_what_is_wrong_is_told(server: BadStore, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no such bucket" in str(refusal("s3://no-such-bucket/x"))
    server.fault = lambda *request: 403
    assert "s3:PutObject" in refusal(address).hint
    server.fault = lambda *request: 503
    assert isinstance(refusal(address), RetryableError)
    server.recover()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    assert isinstance(refusal(address), RetryableError)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://192.0.2.1:1")
    with pytest.raises(UsageError, match="plain HTTP to another machine"):
        aws.resolve_credentials(address)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    for refused in (files_at(address).names, lambda: aws.resolve_credentials(address)):
        with pytest.raises(UsageError, match="no credentials"):
            refused()


def test_a_refusal_by_a_store_that_has_answered_may_pass(server: BadStore, address: str) -> None:
    server.fault = lambda *request: 403
    assert isinstance(refusal(address), UsageError)
    server.recover()
    assert not files_at(address).exists("home.json")
    server.fault = lambda *request: 403
    assert isinstance(refusal(address), RetryableError)


def test_an_object_that_is_not_deleted_is_an_error(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_at(address)
    assert isinstance(files, S3Bucket)
    for code, error in (("AccessDenied", UsageError), ("InternalError", RetryableError)):
        answer = Mock(return_value={"Errors": [{"Key": "a", "Code": code, "Message": "no"}]})
        monkeypatch.setattr(s3, "_ANSWERED", set())
        monkeypatch.setattr(files, "_client", Mock(delete_objects=answer))
        with pytest.raises(error, match=code):
            files.delete(["a"])


def test_a_store_that_ignores_conditions_is_no_home(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = storage_of(address)
    storage.prepare_home(address)
    assert files_at(address).names() == [], "the probe is gone"
    put = S3Bucket(address)._client.put_object
    for ignored in ("IfMatch", "IfNoneMatch"):
        one = S3Bucket(address)
        without = lambda ignored=ignored, **request: put(**{k: v for k, v in request.items() if k != ignored})  # noqa: E731
        client = Mock(wraps=one._client, put_object=without, meta=one._client.meta)
        monkeypatch.setattr(one, "_client", client)
        with pytest.raises(UsageError, match="ignores the conditions"):
            one.check_conditions()


def test_a_new_home_is_its_owners_and_a_groups(tmp_path: Path) -> None:
    folder = storage_of("/home")
    group = grp.getgrgid(os.getgid()).gr_name
    for name, given, mode in (("own", "", 0o700), ("shared", group, 0o2750)):
        folder.prepare_home(str(tmp_path / name), given)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode
    (tmp_path / "older").mkdir(0o755)
    folder.prepare_home(str(tmp_path / "older"))
    assert stat.S_IMODE((tmp_path / "older").stat().st_mode) == 0o755
    with pytest.raises(UsageError, match="home_group"):
        folder.prepare_home(str(tmp_path / "never"), "no-such-group")
    assert not (tmp_path / "never").exists()


@moto_only
def test_a_bucket_with_versions_is_known(address: str) -> None:
    assert storage_of(address).keeps_versions(address) is False
    bucket = S3Bucket(address)
    bucket._client.put_bucket_versioning(Bucket=bucket.bucket, VersioningConfiguration={"Status": "Enabled"})
    assert storage_of(address).keeps_versions(address) is True


def test_a_profile_is_enough(server: BadStore, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow and delta-rs are given what boto3 has found, wherever that was: here all of it in a profile."""
    lines = [f"endpoint_url = {server.url}", "region = eu-north-1"]
    lines += [f"{name.lower()} = {CREDENTIALS[name]}" for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
    (tmp_path / "config").write_text("\n".join(["[profile mine]", *lines]) + "\n")
    for name in ("AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    found = aws.resolve_credentials(address)
    assert (found.endpoint, found.region) == (server.url, "eu-north-1")
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in repr(found)
    files_at(address).write("a", b"1")
    assert files_at(address).names() == ["a"] and address.startswith(f"s3://{BUCKET}/")
