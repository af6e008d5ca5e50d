"""The ledgers: what is pending, where batches cut, how far the past may be forgotten."""

import datetime as dt
import json

import pytest

from pststream.errors import HomeError, RetryableError
from pststream.names import BATCHES, FILES
from pststream.state import control
from pststream.state.home import FORMAT, MARK, Home
from pststream.state.ledger import Ledger, key

T0 = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def home(tmp_path):
    made = Home(tmp_path / "home")
    made.init()
    return made


def file(seq, kind, rows, hours, before=None, status="done"):
    return {
        "file_seq": seq, "ingest_id": seq, "kind": kind, "path": f"f{seq}", "sha256": str(seq), "bytes": 1,
        "options": "{}", "status": status, "rows": rows, "accepted": rows, "rejected": 0,
        "min_ts": T0, "max_ts": T0 + hours * HOUR,
        "watermark": None if before is None else T0 + before * HOUR, "at": T0,
    }  # fmt: skip


def batch(number, objects_to, requests_to, status="done"):
    return {
        "batch_id": number, "status": status, "plan_version": 1, "objects_after": 0, "objects_to": objects_to,
        "requests_after": 0, "requests_to": requests_to, "objects_version": 1, "requests_version": 1, "started_at": T0,
    }  # fmt: skip


def test_an_empty_home_has_nothing_pending(home):
    ledger = Ledger(home)
    assert ledger.pending(10).empty and ledger.horizon(HOUR) is None and ledger.next_file_seq == 1


def test_a_cut_walks_through_files(home):
    control.append(home, FILES, [file(1, "objects", 10, 1), file(2, "requests", 5, 0), file(3, "objects", 7, 2, 1)])
    ledger = Ledger(home)
    assert ledger.pending(4).objects_to == key(1, 4)
    assert ledger.pending(10).objects_to == key(1, 10)
    assert ledger.pending(12).objects_to == key(3, 2)
    assert ledger.pending(99).objects_to == key(3, 7)
    control.append(home, BATCHES, [batch(1, key(1, 8), ledger.pending(1).requests_to)])
    later = Ledger(home)
    assert later.pending(3).objects_to == key(3, 1)
    assert later.pending(3).requests_after == later.pending(3).requests_to


def test_files_count_when_they_are_done(home):
    control.append(home, FILES, [file(1, "objects", 10, 1, status="started")])
    ledger = Ledger(home)
    assert ledger.pending(10).empty and len(ledger.unfinished_ingest()) == 1
    control.append(home, FILES, [file(1, "objects", 10, 1)])
    assert not Ledger(home).pending(10).empty and not Ledger(home).unfinished_ingest()


def test_the_horizon_waits_for_what_is_unmatched(home):
    control.append(home, FILES, [file(1, "objects", 10, 1), file(2, "objects", 10, 8, 1), file(3, "objects", 10, 9, 8)])
    assert Ledger(home).horizon(HOUR) is None
    control.append(home, BATCHES, [batch(1, key(1, 10), 0)])
    assert Ledger(home).horizon(HOUR) == T0
    control.append(home, BATCHES, [batch(2, key(3, 10), 0)])
    assert Ledger(home).horizon(HOUR) == T0 + 8 * HOUR


def test_a_batch_that_started_is_unfinished(home):
    control.append(home, BATCHES, [batch(1, 5, 5, "started")])
    assert Ledger(home).unfinished_batch()["batch_id"] == 1
    control.append(home, BATCHES, [batch(1, 5, 5)])
    assert Ledger(home).unfinished_batch() is None and Ledger(home).next_batch_id == 2


def test_init_may_run_again(home):
    assert home.init() is False


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        ("{", "not readable"),
        ("[]", "names no format"),
        ('{"format": 99}', "newer version"),
        ('{"format": 1}', "older version"),
        ('{"format": 2}', "run: pststream upgrade"),
        (json.dumps({"format": FORMAT}), "words"),
    ],
)
def test_a_home_that_cannot_be_used_is_refused(home, mark, reason):
    (home_path := home.path)
    with open(f"{home_path}/{MARK}", "w") as out:
        out.write(mark)
    with pytest.raises(HomeError, match=reason):
        home.check()


def test_one_writer_at_a_time(home):
    with home.locked(), pytest.raises(RetryableError, match="in use"), Home(home.path).locked():
        pass
