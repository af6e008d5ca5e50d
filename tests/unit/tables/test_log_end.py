"""The ledgers: what is pending, where batches cut, how far the past may be forgotten."""

import datetime as dt
import json
import random

import pytest

from pststream.base import names
from pststream.base.errors import HomeError, RetryableError
from pststream.base.names import BATCHES, FILES
from pststream.state import ledger_tables
from pststream.state.home import FORMAT, TOO_OLD, Home, digest_of_tables
from pststream.tables.ledgers import Ledger, known_hashes, log_key, recent_row_counts

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
        "watermark": None if before is None else T0 + before * HOUR, "started_at": T0,
    }  # fmt: skip


def batch(number, objects_to, requests_to, status="done"):
    return {
        "batch_id": number, "status": status, "plan_version": 1, "objects_after": 0, "objects_to": objects_to,
        "requests_after": 0, "requests_to": requests_to, "objects_version": 1, "requests_version": 1,
        "removals": 0, "started_at": T0,
    }  # fmt: skip


def test_an_empty_home_has_nothing_pending(home):
    ledger = Ledger(home)
    assert ledger.pending(10).empty and ledger.horizon(HOUR) is None and ledger.next_file_seq == 1


def test_a_cut_walks_through_files(home):
    ledger_tables.append(
        home, FILES, [file(1, "objects", 10, 1), file(2, "requests", 5, 0), file(3, "objects", 7, 2, 1)]
    )
    ledger = Ledger(home)
    assert ledger.pending(4).objects_to == log_key(1, 4)
    assert ledger.pending(10).objects_to == log_key(1, 10)
    assert ledger.pending(12).objects_to == log_key(3, 2)
    assert ledger.pending(99).objects_to == log_key(3, 7)
    ledger_tables.append(home, BATCHES, [batch(1, log_key(1, 8), ledger.pending(1).requests_to)])
    later = Ledger(home)
    assert later.pending(3).objects_to == log_key(3, 1)
    assert later.pending(3).requests_after == later.pending(3).requests_to


def test_files_count_when_they_are_done(home):
    ledger_tables.append(home, FILES, [file(1, "objects", 10, 1, status="started")])
    ledger = Ledger(home)
    assert ledger.pending(10).empty and len(ledger.unfinished_ingest()) == 1
    ledger_tables.append(home, FILES, [file(1, "objects", 10, 1)])
    assert not Ledger(home).pending(10).empty and not Ledger(home).unfinished_ingest()


def test_the_horizon_waits_for_what_is_unmatched(home):
    ledger_tables.append(
        home, FILES, [file(1, "objects", 10, 1), file(2, "objects", 10, 8, 1), file(3, "objects", 10, 9, 8)]
    )
    assert Ledger(home).horizon(HOUR) is None
    ledger_tables.append(home, BATCHES, [batch(1, log_key(1, 10), 0)])
    assert Ledger(home).horizon(HOUR) == T0
    ledger_tables.append(home, BATCHES, [batch(2, log_key(3, 10), 0)])
    assert Ledger(home).horizon(HOUR) == T0 + 8 * HOUR


def test_a_batch_that_started_is_unfinished(home):
    ledger_tables.append(home, BATCHES, [batch(1, 5, 5, "started")])
    assert Ledger(home).unfinished_batch()["batch_id"] == 1
    ledger_tables.append(home, BATCHES, [batch(1, 5, 5)])
    assert Ledger(home).unfinished_batch() is None and Ledger(home).next_batch_id == 2


REQUESTS_DONE = ("requests", "done")


class WholeLedger:
    """The twin: holds all rows, and answers in the plainest way."""

    def __init__(self, home):
        self.home, self.files, self.batches = home, {}, {}

    def file(self, row):
        ledger_tables.append(self.home, FILES, [row])
        self.files[row["file_seq"]] = row

    def batch(self, row):
        ledger_tables.append(self.home, BATCHES, [row])
        self.batches[row["batch_id"]] = row

    def objects(self, before=2**63):
        return [
            f
            for seq, f in sorted(self.files.items())
            if f["kind"] == "objects" and f["status"] == "done" and log_key(seq, 0) < before
        ]

    def answers(self):
        last = self.batches[max(self.batches)] if self.batches else {"objects_after": 0, "objects_to": 0, "status": ""}
        waiting = [f for f in self.objects() if log_key(f["file_seq"], f["rows"]) > last["objects_to"]]
        watermark = greatest(self.objects())
        horizon = waiting[0]["watermark"] if waiting else watermark
        started = sorted(seq for seq, f in self.files.items() if f["status"] == "started")
        return {
            "next_file": max(self.files, default=0) + 1,
            "next_batch": max(self.batches, default=0) + 1,
            "unfinished": (started, last["status"] == "started"),
            "watermark": watermark,
            "horizon": None if horizon is None else horizon - HOUR,
            "matched_ts": greatest(self.objects(last["objects_after"])),
            "objects_to": take(self.objects(), last["objects_to"], 7),
            "requests_to": max(
                (log_key(seq, 2**32 - 1) for seq, f in self.files.items() if (f["kind"], f["status"]) == REQUESTS_DONE),
                default=0,
            ),
            "requests": self.taken(last),
        }

    def taken(self, batch):
        """Requests of the last batch, and the least `at` of them."""
        mine = [
            f
            for seq, f in self.files.items()
            if (f["kind"], f["status"]) == REQUESTS_DONE
            and batch.get("requests_after", 0) < log_key(seq, 1) <= batch.get("requests_to", 0)
        ]
        return sum(f["rows"] for f in mine), min((f["min_ts"] for f in mine), default=None)


def greatest(files):
    return max((f["max_ts"] for f in files), default=None)


def take(files, position, rows):
    """Row by row."""
    log = [log_key(f["file_seq"], row) for f in files for row in range(1, f["rows"] + 1)]
    later = [one for one in log if one > position][:rows]
    return later[-1] if later else position


def answers_of(home):
    ledger = Ledger(home)
    last = ledger.last_batch or {"objects_after": 0, "requests_after": 0, "requests_to": 0}
    pending = ledger.pending(7)
    taken = last["requests_after"], last["requests_to"]
    return {
        "next_file": ledger.next_file_seq,
        "next_batch": ledger.next_batch_id,
        "unfinished": ([f["file_seq"] for f in ledger.unfinished_ingest()], ledger.unfinished_batch() is not None),
        "watermark": ledger.watermark(),
        "horizon": ledger.horizon(HOUR),
        "matched_ts": ledger.max_matched_ts(last["objects_after"]),
        "objects_to": pending.objects_to,
        "requests_to": pending.requests_to,
        "requests": (ledger.accepted_requests(*taken), ledger.min_request_time(*taken)),
    }


@pytest.mark.parametrize("seed", range(3))
def test_the_end_of_a_ledger_tells_what_the_whole_does(home, seed):
    """Files of both kinds and batches as they may come, some left unfinished for a while, and joined now and then."""
    rng, whole = random.Random(seed), WholeLedger(home)
    for seq in range(1, 16):
        kind, mark = rng.choice(["objects", "objects", "requests"]), whole.answers()["watermark"]
        row = file(seq, kind, rng.choice([0, 1, 5, 20]), rng.randrange(50))
        row["watermark"] = mark if kind == "objects" else None
        whole.file(row | dict.fromkeys(("rows", "min_ts", "max_ts")) | {"status": "started"})
        assert answers_of(home) == whole.answers()
        whole.file(row)
        for _ in range(rng.choice([0, 0, 1, 2])):
            ledger = Ledger(home)
            pending = ledger.pending(rng.choice([3, 7, 30]))
            if not pending.empty:
                done = batch(ledger.next_batch_id, pending.objects_to, pending.requests_to)
                done |= {"objects_after": pending.objects_after, "requests_after": pending.requests_after}
                whole.batch(done | {"status": "started"})
                assert answers_of(home) == whole.answers()
                whole.batch(done)
        if rng.random() < 0.2:
            ledger_tables.compact(home, FILES, 4096)
            ledger_tables.compact(home, BATCHES, 4096)
        assert answers_of(home) == whole.answers()


def test_the_last_files_of_a_kind_and_known_hashes(home):
    rows = [file(seq, "requests" if seq % 3 == 0 else "objects", seq, seq, seq - 1) for seq in range(1, 10)]
    ledger_tables.append(home, FILES, [row | {"status": "started"} for row in rows])
    assert recent_row_counts(home, "objects", 2) == []
    ledger_tables.append(home, FILES, rows[4:])
    ledger_tables.append(home, FILES, rows[:4])
    assert recent_row_counts(home, "objects", 3) == [5, 7, 8]
    assert recent_row_counts(home, "requests", 9) == [3, 6, 9]
    assert known_hashes(home, ["1", "3", "8", "77"]) == {("objects", "1"), ("requests", "3"), ("objects", "8")}
    assert known_hashes(home, []) == set()


def test_init_may_run_again(home):
    assert home.init() is False


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        ("{", "not readable"),
        ("[]", "names no format"),
        ('{"home_format": "1"}', "names no format"),
        ('{"home_format": 99}', "newer version"),
        ('{"home_format": 0}', "run: pststream upgrade"),
        ('{"format": 11}', TOO_OLD),
        (json.dumps({"home_format": FORMAT, "tables": digest_of_tables()}), "words"),
    ],
)
def test_a_home_that_cannot_be_used_is_refused(home, mark, reason):
    (home_path := home.path)
    with open(f"{home_path}/{names.HOME_MARK}", "w") as out:
        out.write(mark)
    with pytest.raises(HomeError, match=reason):
        home.check()


def test_one_writer_at_a_time(home):
    with home.locked(), pytest.raises(RetryableError, match="in use"), Home(home.path).locked():
        pass
