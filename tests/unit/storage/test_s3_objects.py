"""Objects of a bucket, from a real server behind a proxy that misbehaves."""

import hashlib
import io
import itertools
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from pststream.base.errors import PstError, RetryableError, UsageError
from pststream.storage import aws, s3
from pststream.storage.contract import ObjectChanged, StoredObject
from pststream.storage.s3 import S3Bucket
from tests.bad_store import BUCKET, BadStore, Uploader, bad_store, is_body, is_listing
from tests.moto_process import CREDENTIALS, free_port, moto_only, s3_server

CONTENT = bytes(range(256)) * 1000
ADDRESS = f"s3://{BUCKET}/in"


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[BadStore, Uploader]]:
    """The proxy, and a way past it."""
    with s3_server() as url, bad_store(url) as store:
        yield store, Uploader(url)


@pytest.fixture
def store(servers: tuple[BadStore, Uploader], monkeypatch: pytest.MonkeyPatch) -> BadStore:
    """The proxy, well, where the standard chain finds it; few tries and short waits."""
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL_S3": servers[0].url, "AWS_MAX_ATTEMPTS": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(aws, "READ_SECONDS", 60)
    monkeypatch.setattr(s3, "_ANSWERED", set())
    monkeypatch.setattr(s3, "time", SimpleNamespace(sleep=lambda seconds: None))
    servers[0].recover()
    servers[0].page = 1000
    return servers[0]


@pytest.fixture
def uploader(servers: tuple[BadStore, Uploader]) -> Uploader:
    """A bucket that is empty, and its producer."""
    servers[1].new_bucket()
    return servers[1]


def listed(uploader: Uploader, content: bytes = CONTENT) -> tuple[S3Bucket, StoredObject]:
    uploader.put("in/a.csv", content)
    bucket = S3Bucket(ADDRESS)
    (stored,) = bucket.list_objects("in/")
    return bucket, stored


def hurried(store: BadStore, fault: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing comes, it is not waited for a minute."""
    if fault == "hang":
        monkeypatch.setattr(aws, "READ_SECONDS", 3)
        monkeypatch.setattr(store, "seconds", 8.0)


def copied(bucket: S3Bucket, stored: StoredObject) -> bytes:
    file = io.BytesIO()
    sha256 = bucket.copy_object(stored, file)
    assert sha256 == hashlib.sha256(file.getvalue()).hexdigest()
    return file.getvalue()


@moto_only
def test_a_listing_of_many_pages(store: BadStore, uploader: Uploader) -> None:
    keys = [f"in/{n:02d}.csv" for n in range(23)] + ["in/ü ñ&+%.csv", "in/\u001f.csv", "in/z/東京.csv"]
    for key in keys:
        uploader.put(key, key.encode())
    uploader.put("input/not-below.csv", b"")
    store.page = 5
    bucket = S3Bucket(ADDRESS)
    found = bucket.list_objects("in/")
    assert [one.key for one in found] == sorted(keys)
    assert {one.bytes for one in found} == {len(key.encode()) for key in keys}
    assert sum(is_listing(*request) for request in store.requests) == 6
    assert [copied(bucket, one).decode() for one in found] == sorted(keys)
    assert bucket.list_objects("in/", after=found[20].key) == found[21:]


def test_the_object_that_an_address_names(store: BadStore, uploader: Uploader) -> None:
    uploader.put("in/a.csv.gz", b"")
    assert S3Bucket(ADDRESS).find_object("in/a.csv") is None
    uploader.put("in/a.csv", b"123")
    found = S3Bucket(ADDRESS).find_object("in/a.csv")
    assert found is not None and (found.key, found.bytes) == ("in/a.csv", 3)


def test_uploads_under_way(store: BadStore, uploader: Uploader) -> None:
    uploader.begin("in/half.csv")
    uploader.begin("elsewhere/half.csv")
    assert [key for key, _ in S3Bucket(ADDRESS).unfinished_uploads("in/")] == ["in/half.csv"]
    assert S3Bucket(ADDRESS).list_objects("in/") == []


@pytest.mark.parametrize("fault", ["cut", 503, pytest.param("hang", marks=pytest.mark.slow)])
def test_a_fault_that_passes_is_not_seen(
    store: BadStore, uploader: Uploader, fault: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurried(store, fault, monkeypatch)
    bucket, stored = listed(uploader)
    faults: Iterator[int | str | None] = itertools.chain([fault], itertools.repeat(None))
    store.fault = lambda *request: next(faults) if is_body(*request) else None
    assert copied(bucket, stored) == CONTENT
    assert len(store.read_keys()) >= 2


@pytest.mark.parametrize("fault", ["cut", 503, pytest.param("hang", marks=pytest.mark.slow)])
def test_a_fault_that_stays_may_be_tried_again(
    store: BadStore, uploader: Uploader, fault: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurried(store, fault, monkeypatch)
    bucket, stored = listed(uploader)
    store.fault = lambda *request: fault
    with pytest.raises(RetryableError, match="in/a.csv"):
        copied(bucket, stored)
    assert 2 <= len(store.read_keys()) <= 6
    with pytest.raises(RetryableError):
        bucket.list_objects("in/")


def test_an_object_that_is_replaced_or_removed_before_it_is_read(store: BadStore, uploader: Uploader) -> None:
    bucket, stored = listed(uploader)
    uploader.put("in/a.csv", CONTENT[::-1])
    with pytest.raises(ObjectChanged):
        copied(bucket, stored)
    uploader.s3.delete_object(Bucket=BUCKET, Key="in/a.csv")
    with pytest.raises(ObjectChanged):
        copied(bucket, stored)


def test_an_object_that_may_not_be_read_is_refused_for_itself(store: BadStore, uploader: Uploader) -> None:
    bucket, stored = listed(uploader)
    store.fault = lambda method, target: 403 if is_body(method, target) else None
    for read in (lambda: copied(bucket, stored), lambda: bucket.read_start(stored, 1)):
        with pytest.raises(UsageError, match="AccessDenied"):
            read()


def test_a_body_that_is_shorter_than_listed(store: BadStore, uploader: Uploader) -> None:
    bucket, stored = listed(uploader)
    with pytest.raises(ObjectChanged, match="received 256000 bytes, expected 300000"):
        copied(bucket, StoredObject(stored.key, stored.etag, 300_000, stored.modified))


def refusal(address: str) -> PstError:
    with pytest.raises(PstError) as found:
        S3Bucket(address).list_objects("in/")
    text = str(found.value)
    assert found.value.hint
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in text and CREDENTIALS["AWS_ACCESS_KEY_ID"] not in text
    assert "a-password" not in text
    return found.value


def test_what_is_wrong_is_told_with_what_to_do(
    store: BadStore, uploader: Uploader, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no such bucket" in str(refusal("s3://no-such-bucket/in"))
    assert isinstance(refusal("s3:///in"), UsageError)
    assert isinstance(refusal("s3://not_A bucket/in"), UsageError)
    store.fault = lambda *request: 403
    denied = refusal(ADDRESS)
    assert isinstance(denied, UsageError) and "AccessDenied" in str(denied) and "s3:ListBucket" in denied.hint
    for status in (404, 501):
        store.fault = lambda *request, status=status: status
        assert type(refusal(ADDRESS)) is UsageError
    store.recover()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://user:a-password@127.0.0.1:{free_port()}")
    unanswered = refusal(ADDRESS)
    assert isinstance(unanswered, RetryableError) and "127.0.0.1" in str(unanswered)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "user:a-password@nowhere")
    assert isinstance(refusal(ADDRESS), UsageError)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", store.url)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    assert "NoCredentialsError" in str(refusal(ADDRESS))
