"""Locks of a home in a folder: one holder, and none that has lost its lock commits afterwards.

Processes hold the home, and are stopped and killed.
"""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pststream.base import names
from pststream.base.errors import HomeBusy, RetryableError
from pststream.state import home as homes
from pststream.state import ledger_tables, locks
from pststream.state.home import Home
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import read_table, table_version
from pststream.tables.open_tables import open_table
from tests.lease_holder import holder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home of one table, which was locked before."""
    for module in (locks, homes):
        monkeypatch.setattr(module, "TABLES", {names.VOCABULARY: TABLES[names.VOCABULARY]})
    monkeypatch.setattr(homes, "digest_of_tables", homes.digest_of_tables.__wrapped__)  # else other tests see it
    home = Home(tmp_path / "home")
    home.init()
    with home.locked():
        append(home, "before")
    return home


def append(home: Home, text: str) -> None:
    row = {"plan_version": 1, "term_id": 1, "term": text, "objects": 1, "subscriptions": 1}
    ledger_tables.append(home, names.VOCABULARY, [row])


def terms(home: Home) -> list[str]:
    return sorted(read_table(home.table(names.VOCABULARY)).column("term").to_pylist())


def version(home: Home) -> int:
    return table_version(home.table(names.VOCABULARY))


def lock_file(home: Home) -> Path:
    return Path(home.path, ".lock")


def replace_home(home: Home) -> None:
    """Put a copy in the place of the home, lock file included, as a restored backup."""
    shutil.copytree(home.path, f"{home.path}-copy")
    os.rename(home.path, f"{home.path}-old")
    os.rename(f"{home.path}-copy", home.path)


def test_a_stopped_holder_keeps_the_lock_and_commits_when_it_goes_on(home: Home) -> None:
    with holder(home, "checked") as first:
        first.signal(signal.SIGSTOP)
        with pytest.raises(HomeBusy, match="lease_holder"), home.locked():
            pass
        first.signal(signal.SIGCONT)
        assert first.go_on() == "committed"
    assert terms(home) == ["before", "of the first"]


@pytest.mark.parametrize("loss", ["server", "deleted", "replaced"])
@pytest.mark.parametrize("point", ["held", "checked"])
def test_a_holder_that_lost_its_lock_while_it_stood_still_commits_no_more(home: Home, point: str, loss: str) -> None:
    with holder(home, f"unlocked-{point}" if loss == "server" else point) as first:
        first.signal(signal.SIGSTOP)
        if loss == "deleted":
            lock_file(home).unlink()
        if loss == "replaced":
            replace_home(home)
        with home.locked():
            append(home, "of the second")
        first.signal(signal.SIGCONT)
        assert first.go_on().startswith("RetryableError")
        with home.locked():
            append(home, "of the third")
    assert terms(home) == ["before", "of the second", "of the third"]


def test_a_killed_holder_needs_no_fence(home: Home) -> None:
    with holder(home, "held") as first:
        first.signal(signal.SIGKILL)
        first.end()
        with home.locked():
            append(home, "of the second")
    assert version(home) == 2  # one for each row


def test_a_lock_file_that_a_power_cut_has_damaged_is_written_again(home: Home) -> None:
    for content in (b"", b"\0" * 2_048, b'{"number": 1', b"[]"):
        lock_file(home).write_bytes(content)
        with home.locked():
            append(home, "tea")
    assert terms(home) == ["before", *["tea"] * 4]
    assert open_table(home.table(names.VOCABULARY)).transaction_version(".lock") == 5


def test_a_fence_that_fails_is_left_to_the_next(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with holder(home, "unlocked-checked") as first:
        first.signal(signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr("pststream.state.locks.open_table", lambda address: 1 / 0)
            with pytest.raises(ZeroDivisionError), home.locked():
                pass
        with home.locked():
            append(home, "of the second")
        first.signal(signal.SIGCONT)
        assert first.go_on().startswith("RetryableError")
    assert terms(home) == ["before", "of the second"]
    assert version(home) == 3  # a fence, and one for each row
    assert b"unfenced" not in lock_file(home).read_bytes()


def test_a_lock_ends_with_its_process_though_a_forked_child_lives(home: Home) -> None:
    with holder(home, "forked") as first:
        first.end()
        with home.locked(wait_seconds=1.0):
            append(home, "of the second")
    assert terms(home) == ["before", "of the second"]


def test_a_new_home_and_each_lock_of_it_begin_without_a_fence(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.init()
    for scope in ("", "run", "deliver-a", "compact-deliveries"):
        with home.locked(scope):
            assert not home.has_lost_lock()
    assert {DeltaTable(home.table(name)).version() for name in TABLES} == {0}


def test_what_this_machine_has_cached_of_a_lock_file_does_not_count(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS reads an open file from the cache of the machine, and looks at the server when a file is opened."""
    pread = os.pread
    with home.locked(), monkeypatch.context() as patch:
        [lock] = home._own_locks()
        own, cached = lock._file.fileno(), lock_file(home).read_bytes()
        patch.setattr(os, "pread", lambda fd, *where: cached if fd == own else pread(fd, *where))
        assert not home.has_lost_lock()
        lock_file(home).write_bytes(b'{"number": 9, "token": "of the next"}'.ljust(locks.SIZE))
        assert home.has_lost_lock()


def test_a_holder_that_lost_its_lock_deletes_no_file_of_the_next(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened_before_another_writes(address: str) -> Iterator[DeltaTable]:
        patch.undo()
        table = DeltaTable(address)
        lock_file(home).unlink()
        with Home(home.path).locked():
            append(Home(home.path), "of the next")
        yield table

    with home.locked(), monkeypatch.context() as patch:
        patch.setattr(ledger_tables, "latest_table", opened_before_another_writes)
        with pytest.raises(RetryableError, match="another process has taken over"):
            ledger_tables.vacuum(home, names.VOCABULARY, 0)
    assert terms(home) == ["before", "of the next"]


def test_a_lost_lock_is_not_released(home: Home) -> None:
    with home.locked():
        lock_file(home).unlink()
        assert home.has_lost_lock()
        with Home(home.path).locked():
            began = time.time()
    assert b"process" not in lock_file(home).read_bytes() and lock_file(home).stat().st_mtime <= began + 60
