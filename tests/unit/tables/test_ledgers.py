"""The ledgers: types of their rows, what is pending, where batches cut, how far the past may be forgotten."""

import datetime as dt
import json
import random
from itertools import permutations
from types import UnionType
from typing import Any, get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pytest

from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.base.errors import HomeError
from pststream.base.names import BATCHES, FILES
from pststream.state import ledger_tables
from pststream.state.home import FORMAT, digest_of_tables
from pststream.state.tables import COUNTS, IDS, SECONDS, TABLES
from pststream.tables.ledgers import (
    BatchRow,
    FileRow,
    Ledger,
    known_hashes,
    latest_rows,
    log_key,
    recent_row_counts,
    split_by_status,
)
from tests.fuzz.cases import seeds

T0 = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


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


def test_an_empty_home_has_nothing_pending(hand_home):
    ledger = Ledger(hand_home)
    assert ledger.pending(10).empty and ledger.horizon(HOUR) is None and ledger.next_file_seq == 1


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


@seeds(3)
def test_the_end_of_a_ledger_tells_what_the_whole_does(hand_home, seed):
    """Files of both kinds and batches as they may come, some left unfinished for a while, and joined now and then."""
    rng, whole = random.Random(seed), WholeLedger(hand_home)
    for seq in range(1, 16):
        kind, mark = rng.choice(["objects", "objects", "requests"]), whole.answers()["watermark"]
        row = file(seq, kind, rng.choice([0, 1, 5, 20]), rng.randrange(50))
        row["watermark"] = mark if kind == "objects" else None
        whole.file(row | dict.fromkeys(("rows", "min_ts", "max_ts")) | {"status": "started"})
        assert answers_of(hand_home) == whole.answers()
        whole.file(row)
        for _ in range(rng.choice([0, 0, 1, 2])):
            ledger = Ledger(hand_home)
            pending = ledger.pending(rng.choice([3, 7, 30]))
            if not pending.empty:
                done = batch(ledger.next_batch_id, pending.objects_to, pending.requests_to)
                done |= {"objects_after": pending.objects_after, "requests_after": pending.requests_after}
                whole.batch(done | {"status": "started"})
                assert answers_of(hand_home) == whole.answers()
                whole.batch(done)
        if rng.random() < 0.2:
            ledger_tables.compact(hand_home, FILES, 4096)
            ledger_tables.compact(hand_home, BATCHES, 4096)
        assert answers_of(hand_home) == whole.answers()


def test_the_last_files_of_a_kind_and_known_hashes(hand_home):
    rows = [file(seq, "requests" if seq % 3 == 0 else "objects", seq, seq, seq - 1) for seq in range(1, 10)]
    ledger_tables.append(hand_home, FILES, [row | {"status": "started"} for row in rows])
    assert recent_row_counts(hand_home, "objects", ["f0"], 2) == [[]]
    ledger_tables.append(hand_home, FILES, rows[4:])
    ledger_tables.append(hand_home, FILES, rows[:4])
    assert recent_row_counts(hand_home, "objects", ["f0", "other/f0"], 3) == [[5, 7, 8], []]
    assert recent_row_counts(hand_home, "requests", ["f0"], 9) == [[3, 6, 9]]
    assert known_hashes(hand_home, ["1", "3", "8", "77"]) == {("objects", "1"), ("requests", "3"), ("objects", "8")}
    assert known_hashes(hand_home, []) == set()


def test_the_usual_rows_of_a_sender_are_those_of_its_own_files(hand_home):
    paths = [
        "/in/objects/a.csv",
        "/in/objects/us/2026-03-01/a.csv",
        "/in/objects/us/b.csv",
        "s3://in/objects/them/c.csv",
    ]
    rows = [file(seq, "objects", seq, seq, seq - 1) | {"path": path} for seq, path in enumerate(paths, 1)]
    ledger_tables.append(hand_home, FILES, rows)
    asked = [
        "/in/objects/new.csv",
        "/in/objects/us/2026-03-02/a.csv",
        "/in/objects/them/a.csv",
        "s3://in/objects/them/d/e",
    ]
    assert recent_row_counts(hand_home, "objects", asked, 9) == [[1], [2, 3], [], [4]]


def test_init_may_run_again(hand_home):
    assert hand_home.init() is False


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        ("{", "not readable"),
        ("[]", "names no format"),
        ('{"home_format": "1"}', "names no format"),
        ('{"home_format": 0}', "run: pststream upgrade"),
        (json.dumps({"home_format": FORMAT, "tables": digest_of_tables()}), "words"),
    ],
)
def test_a_home_that_cannot_be_used_is_refused(hand_home, mark, reason):
    (home_path := hand_home.path)
    with open(f"{home_path}/{names.HOME_MARK}", "w") as out:
        out.write(mark)
    with pytest.raises(HomeError, match=reason):
        hand_home.check()


PYTHON_TYPES = {
    pa.int64(): int, pa.string(): str, TIME: dt.datetime, IDS: list[int],
    SECONDS: list[tuple[str, float]], COUNTS: list[tuple[str, int]],
}  # fmt: skip


def plain_type(hint: Any) -> Any:
    """The type of a hint without None."""
    return next(one for one in get_args(hint) if one is not type(None)) if isinstance(hint, UnionType) else hint


@pytest.mark.parametrize(("row", "table"), [(FileRow, names.FILES), (BatchRow, names.BATCHES)])
def test_row_types_are_those_of_the_declared_columns(row: type, table: str) -> None:
    declared = {column.name: PYTHON_TYPES[column.type] for column in TABLES[table].columns}
    assert {name: plain_type(hint) for name, hint in get_type_hints(row).items()} == declared


def test_of_one_key_the_row_done_counts() -> None:
    random = np.random.default_rng(3)
    keys = random.permutation(np.repeat(np.arange(40), 2))
    status = np.where(random.random(80) < 0.5, "done", "started")
    rows = pa.table({"key": keys, "status": status, "place": np.arange(80)})
    latest, (done, started) = latest_rows(rows, "key"), split_by_status(rows, "key")
    assert latest.column("key").to_pylist() == list(range(40))
    expected = {key: "done" if "done" in status[keys == key] else "started" for key in range(40)}
    assert dict(zip(latest.column("key").to_pylist(), latest.column("status").to_pylist())) == expected
    assert done.column("key").to_pylist() == [key for key in range(40) if expected[key] == "done"]
    assert started.column("key").to_pylist() == [key for key in range(40) if expected[key] == "started"]
    assert latest_rows(rows.slice(0, 0), "key").num_rows == 0


def test_of_several_rows_that_start_a_batch_the_smallest_range_counts() -> None:
    ranges = [("started", 4, 9), ("started", 8, 9), ("started", 4, 7), ("started", 2, 7), ("done", 2, 7)]
    rows = [
        {"batch_id": 1, "status": status, "objects_to": objects, "requests_to": requests}
        for status, objects, requests in ranges
    ]
    for count, last in ((4, ranges[3]), (5, ranges[4])):
        for drawn in permutations(rows[:count]):
            (row,) = latest_rows(pa.Table.from_pylist(list(drawn)), "batch_id").to_pylist()
            assert tuple(row.values())[1:] == last
