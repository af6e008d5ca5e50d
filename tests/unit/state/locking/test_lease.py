"""Locks of a home in a bucket: one holder, and none that was taken for dead commits afterwards.

Processes hold the home on a real server, and are stopped and killed.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.dataset as pds
import pytest

from pststream.base import names
from pststream.base.errors import HomeBusy, RetryableError
from pststream.state import home as homes
from pststream.state import ledger_tables, locks
from pststream.state.home import Home
from pststream.state.slices import Slice
from pststream.state.tables import TABLES
from pststream.storage.s3 import S3Bucket
from pststream.tables.delta_tables import read_table
from pststream.tables.open_tables import open_table
from tests.bad_store import BadStore
from tests.bucket_home import store_on_loopback, use
from tests.lease_holder import holder

pytestmark = pytest.mark.slow

SECONDS = 2.0


@pytest.fixture(scope="module")
def server() -> Iterator[BadStore]:
    with store_on_loopback() as store:
        yield store


@pytest.fixture
def home(server: BadStore, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home of one table, so that a fence costs one commit."""
    server.recover()
    found = Home(use(server.url, monkeypatch))
    monkeypatch.setattr(locks, "RENEW_SECONDS", SECONDS / 4)
    monkeypatch.setattr(locks, "MARGIN_SECONDS", 1.0)
    for module in (locks, homes):
        monkeypatch.setattr(module, "TABLES", {names.VOCABULARY: TABLES[names.VOCABULARY]})
    monkeypatch.setattr(homes, "digest_of_tables", homes.digest_of_tables.__wrapped__)  # else other tests see it
    found.init()
    return found


@pytest.fixture
def short_leases(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that lapse within a test; a renewal that is late on a busy machine lets them lapse for a while too."""
    monkeypatch.setattr(locks, "LEASE_SECONDS", SECONDS)


def append(home: Home, text: str) -> None:
    ledger_tables.append(
        home, names.VOCABULARY, [{"plan_version": 1, "term_id": 1, "term": text, "objects": 1, "subscriptions": 1}]
    )


def append_soon(home: Home, text: str) -> None:
    """Append as soon as the lease is back."""
    for _ in range(600):
        try:
            append(home, text)
            return
        except RetryableError:
            time.sleep(0.1)
    raise AssertionError("the lease does not come back")


def terms(home: Home) -> list[str]:
    return sorted(read_table(home.table(names.VOCABULARY)).column("term").to_pylist())


def taken_over(home: Home) -> None:
    """Hold the home as soon as it can be had, and append a row."""
    for _ in range(200):
        try:
            with home.locked():
                append_soon(home, "of the second")
                return
        except HomeBusy:
            time.sleep(0.1)
    raise AssertionError("the lease does not lapse")


def test_one_holder_at_a_time(home: Home) -> None:
    with home.locked():
        with pytest.raises(HomeBusy, match=rf"process {os.getpid()}"), Home(home.path).locked():
            pass
        with home.locked("deliver-a"):
            append(home, "tea")
    with home.locked():
        append(home, "tea")
    version = S3Bucket(home.path).version(".lock")
    assert version is not None and b'"number": 2' in version.content and b"token" not in version.content
    assert open_table(home.table(names.VOCABULARY)).transaction_version(".lock") == 2


def test_the_first_holder_of_a_new_home_looks_into_no_table(home: Home, server: BadStore) -> None:
    server.requests.clear()
    with home.locked():
        assert server.requests and not [target for _, target in server.requests if "tables" in target]


def test_a_home_made_again_around_its_tables_goes_on_with_their_tokens(home: Home) -> None:
    with home.locked():
        append(home, "tea")
    home.files.delete([".lock", names.HOME_MARK])
    assert home.init() and not home.files.exists(".lock")
    with home.locked():
        append(home, "milk")
    assert terms(home) == ["milk", "tea"]


@pytest.mark.usefixtures("short_leases")
def test_a_holder_that_works_longer_than_the_lease_keeps_it(home: Home) -> None:
    with home.locked():
        time.sleep(2 * SECONDS)
        append_soon(home, "tea")
        with pytest.raises(HomeBusy), Home(home.path).locked():
            pass
    assert terms(home) == ["tea"]


@pytest.mark.usefixtures("short_leases")
@pytest.mark.parametrize("point", ["held", "checked", "blind"])
def test_a_holder_that_stood_still_commits_no_more(home: Home, point: str) -> None:
    with holder(home, point) as first:
        first.signal(signal.SIGSTOP)
        taken_over(home)
        first.signal(signal.SIGCONT)
        assert first.go_on().startswith("RetryableError")
    assert terms(home) == ["of the second"]
    with home.locked():
        append(home, "of the third")


def test_a_holder_that_goes_on_in_time_commits(home: Home) -> None:
    with holder(home, "checked", locks.LEASE_SECONDS) as first:
        first.signal(signal.SIGSTOP)
        with pytest.raises(HomeBusy, match="lease_holder"), home.locked():
            pass
        first.signal(signal.SIGCONT)
        assert first.go_on() == "committed"
    assert terms(home) == ["of the first"]


def test_a_killed_holder_of_this_machine_is_followed_at_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LEASE_SECONDS", 3600.0)
    with holder(home, "held") as first:
        first.signal(signal.SIGKILL)
        first.end()
        taken_over(home)
    assert terms(home) == ["of the second"]


@pytest.mark.usefixtures("short_leases")
def test_a_fence_that_fails_is_left_to_the_next(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with holder(home, "held") as first:
        first.signal(signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr("pststream.state.locks.open_table", lambda address: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                taken_over(home)
        taken_over(home)
        first.signal(signal.SIGCONT)
        assert first.go_on().startswith("RetryableError")
    assert terms(home) == ["of the second"]


@pytest.mark.usefixtures("short_leases")
def test_a_store_that_does_not_answer_costs_the_lease(home: Home, server: BadStore) -> None:
    with pytest.raises(RetryableError, match="lost its lock"), home.locked():
        server.fault = lambda method, target: 503 if method == "PUT" and ".lock" in target else None
        time.sleep(1.5 * SECONDS)
        append(home, "tea")
    assert terms(home) == []


@pytest.mark.usefixtures("short_leases")
def test_an_answer_that_is_lost_costs_nothing(home: Home, server: BadStore) -> None:
    """A conditional write that was done, and whose answer broke off, is met again by its own repetition."""
    lost = iter(["cut", None] * 3)
    server.fault = lambda method, target: next(lost, None) if method == "PUT" and ".lock" in target else None
    with home.locked():
        time.sleep(SECONDS)
        append_soon(home, "tea")
    assert terms(home) == ["tea"]


@pytest.mark.usefixtures("short_leases")
def test_a_renewal_whose_answers_are_all_lost_costs_nothing(home: Home, server: BadStore) -> None:
    """The next one meets what it has written, and goes on from there."""
    writes = []

    def lose(method: str, target: str) -> str | None:
        if method == "PUT" and ".lock" in target:
            writes.append(time.monotonic())
        return "cut" if writes and ".lock" in target and time.monotonic() < writes[0] + SECONDS / 2 else None

    with home.locked():
        server.fault = lose
        time.sleep(1.5 * SECONDS)
        append_soon(home, "tea")
    assert len(writes) > 2 and terms(home) == ["tea"]


@pytest.mark.usefixtures("short_leases")
def test_a_lock_comes_back_unless_another_has_taken_it(home: Home, server: BadStore) -> None:
    with home.locked():
        server.fault = lambda method, target: 503 if method == "PUT" and ".lock" in target else None
        time.sleep(1.5 * SECONDS)
        server.recover()
        append_soon(home, "tea")
        assert not home.has_lost_lock()
        lock = S3Bucket(home.path)
        lock.write(".lock", lock.read(".lock").replace(b'"token"', b'"another"'))
        until = time.monotonic() + 60
        while not home.has_lost_lock() and time.monotonic() < until:
            time.sleep(0.1)
        with pytest.raises(RetryableError, match="lost its lock"):
            append(home, "tea")


def test_a_home_that_was_copied_here_is_written_to(home: Home, server: BadStore) -> None:
    """The tables of the copy have the fencing tokens of the original; the copy has no lock files."""
    for _ in range(3):
        with home.locked():
            append(home, "tea")
    files, copy = S3Bucket(home.path), Home(f"{home.path}-copy")
    for name in files.names("tables"):
        S3Bucket(copy.path).write(name, files.read(name))
    with copy.locked():
        append(copy, "coffee")
    assert terms(copy) == ["coffee", "tea", "tea", "tea"]
    assert open_table(copy.table(names.VOCABULARY)).transaction_version(".lock") == 5, "4 may be held"


def test_beside_a_runner_the_home_is_waited_for(home: Home) -> None:
    holding, waited = threading.Event(), threading.Event()

    def work() -> None:
        with Home(home.path).locked():
            holding.set()
            waited.wait(1.0)

    with holder(home, "runner"):
        thread = threading.Thread(target=work)
        thread.start()
        holding.wait()
        with home.locked():
            append(home, "tea")
        thread.join()
    assert terms(home) == ["tea"]


def test_rows_that_come_while_files_are_joined_stay(
    home: Home, server: BadStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.server)  # a proxy in this process could not answer Arrow's writer
    for text in "abc":
        append(home, text)
    read = ledger_tables.read_slices

    def reading(slices: list[Slice], columns: list[str]) -> Iterator[pa.RecordBatch]:
        append(Home(home.path), "d")
        return read(slices, columns)

    with monkeypatch.context() as patch:
        patch.setattr(ledger_tables, "read_slices", reading)
        ledger_tables.compact(home, names.VOCABULARY)
    assert len(open_table(home.table(names.VOCABULARY)).file_uris()) == 2
    assert terms(home) == ["a", "b", "c", "d"]
    assert read_table(home.table(names.VOCABULARY), filter=pds.field("term") == "b").num_rows == 1


@pytest.mark.parametrize("content", [None, b"", b"{}", b"torn"])
@pytest.mark.parametrize("second_commits", [True, False])
def test_a_holder_whose_file_is_gone_commits_no_more(
    home: Home, monkeypatch: pytest.MonkeyPatch, content: bytes | None, second_commits: bool
) -> None:
    """The holder neither renews its lease nor has committed when another process takes the lock."""
    monkeypatch.setattr(locks, "LEASE_SECONDS", 60.0)
    monkeypatch.setattr(locks, "RENEW_SECONDS", 60.0)
    with home.locked():
        append(home, "before")
    bucket = S3Bucket(home.path)

    def hold() -> None:
        with Home(home.path).locked():
            if second_commits:
                append(home, "of the second")

    with home.locked():
        if content is None:
            bucket.delete([".lock"])
        else:
            version = bucket.version(".lock")
            assert version is not None and bucket.write_if(".lock", content, version.etag)
        second = threading.Thread(target=hold)
        second.start()
        second.join()
        with pytest.raises(RetryableError, match="another process has taken over"):
            append(home, "of the first")
    with home.locked():
        append(home, "of the third")
    assert terms(home) == ["before", *["of the second"] * second_commits, "of the third"]
