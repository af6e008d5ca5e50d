"""Standing frequent terms in the pipeline: the changes of all batches add up to the reports of the twin."""

import datetime as dt
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pststream.base import names
from pststream.base.utc_times import to_micros
from pststream.pipeline.answers import log_reports
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.state.home import Home as State
from pststream.tables.delta_tables import read_table
from tests.commands import Home, new_home
from tests.erased_homes import set_clock
from tests.oracles.standing_reports import Report, micros, reports_of, standing_of
from tests.oracles.twin import PublishedObject
from tests.oracles.twin_expressions import parts_of, words_of
from tests.oracles.twin_rows import time_us
from tests.worlds import moment, write_rows

Row = dict[str, Any]
WORDS = ("tea", "coffee", "cake", "été", "the", "東京駅", "京", "ก็ดี")
STOP_WORDS = (None, None, "en", ["Tea", "東京", "ETE", "ก็ดี"], list(WORDS[:5]))


def some_objects(rnd: random.Random, count: int) -> list[Row]:
    """Objects of three days, most in order, some late, some without a word."""
    rows = []
    for n in range(count):
        step = n * 400 // count - (rnd.randrange(150) if rnd.randrange(4) == 0 else 0)
        text = rnd.choice((" ", "")).join(rnd.sample(WORDS, rnd.randrange(4)))
        lon, lat = rnd.choice((-180.0, 0.0, 1.0, 2.0, 180.0)), rnd.choice((-1.0, 0.0, 1.0))
        rows.append({"object_id": f"o{n}", "ts": moment(step), "lon": lon, "lat": lat, "text": text})
    return rows


def some_requests(rnd: random.Random, count: int) -> list[Row]:
    """Insertions, early and late; deletions of some, with earlier and later times; ids that come again."""
    rows: list[Row] = []
    for n in range(count):
        created = rnd.choice((-50, 0, 37, 100, 250))
        region = rnd.choice(
            (
                {"bbox": [-1.0, -1.0, 1.0, 1.0]},
                {"bbox": [170.0, -90.0, -170.0, 90.0]},
                {"bbox": [50.0, 50.0, 51.0, 51.0]},
                {"circle": {"lon": 0.0, "lat": 0.0, "radius_m": 150_000}},
            )
        )
        row = {"op": "insert", "subscription_id": f"s{n}", "kind": "frequent_terms", "created_at": moment(created)}
        window, step = rnd.choice((("3h", "1h"), ("1h", "5h"), ("12h", "90m"), ("2d", "6h"), ("45m", "45m")))
        expires, row["stop_words"] = rnd.choice((None, None, moment(created + 200))), rnd.choice(STOP_WORDS)
        rows.append(row | region | {"k": rnd.choice((1, 2, 4)), "window": window, "step": step, "expires_at": expires})
        if rnd.randrange(3) == 0:
            at = moment(created + rnd.choice((1, 60, 180, 600)))
            rows.append({"op": "delete", "subscription_id": f"s{n}", "at": at})
            if rnd.randrange(2):
                rows.append(rows[-2] | {"created_at": at, "expires_at": None})
    return rows


def published(rows: list[Row]) -> list[PublishedObject]:
    return [
        PublishedObject(
            r["object_id"], time_us(r["ts"]), r["lon"], r["lat"], frozenset(words_of(r["text"])), parts_of(r["text"]), r
        )
        for r in rows
    ]


def logged_reports(home: Home) -> set[Report]:
    """The sum of the changes of all batches."""
    state = State(home.path)
    keys = read_table(state.table(names.REQUESTS), ["request_key", "op"]).to_pylist()
    number = {key: n for n, key in enumerate(sorted(r["request_key"] for r in keys if r["op"] == "insert"))}
    rows = read_table(state.table(names.ANSWER_LOG)).sort_by("batch_id").to_pylist()
    total: Counter[Report] = Counter()
    for row in rows:
        assert row["part"] == "change" and row["object_key"] is None and 0 <= row["bucket"] < state.answer_buckets
        key = number[row["subscription_key"]], to_micros(row["ts"]), row["term"], row["count"]
        total[key] += {"entered": 1, "left": -1}[row["event"]]
    assert set(total.values()) <= {0, 1}
    return {key for key, count in total.items() if count}


def read_rows(home: Home, what: str, folder: Path, *arguments: str) -> list[Row]:
    """The rows that `export` writes."""
    path = folder / f"{what}.jsonl"
    home.run("export", what, "--out", path, *arguments)
    return [json.loads(line) for line in path.read_text().splitlines()]


def assert_shown(
    home: Home, things: list[PublishedObject], asked: list[Row], expected: set[Report], folder: Path
) -> None:
    """`export changes` adds up to the reports; `export answers` and `answers` have those of the last ticks, ranked."""
    place = {}  # of the insertions of an id, which have reports at different ticks
    for n, row in enumerate(row for row in asked if row["op"] == "insert"):
        place.setdefault(row["subscription_id"], []).append(n)
    ids = {n: one for one, numbers in place.items() for n in numbers}
    total: Counter[tuple] = Counter()
    for row in read_rows(home, "changes", folder):
        assert row["kind"] == "frequent_terms" and row["object_id"] is row["ts"] is row["distance_m"] is None
        key = row["subscription_id"], time_us(row["as_of"]), row["term"], row["count"]
        total[key] += {"entered": 1, "left": -1}[row["change"]]
    assert +total == Counter((ids[n], *rest) for n, *rest in expected) and min(total.values(), default=0) >= 0
    newest, stream_time = {}, max(one.ts for one in things)
    for one in standing_of(asked):
        reached = stream_time if one.end is None else min(stream_time, one.end - 1)
        newest[one.number] = reached - reached % micros(one.row["step"])
    wanted = []
    for n in newest:
        rows = [(term, count) for other, tick, term, count in expected if (other, tick) == (n, newest[n]) and term]
        rows.sort(key=lambda row: (-row[1], row[0].encode()))
        wanted += [(ids[n], newest[n], rank, *row) for rank, row in enumerate(rows, 1)]
    answers = read_rows(home, "answers", folder)
    names_ = ("rank", "term", "count")
    shown = [(row["subscription_id"], time_us(row["as_of"]), *(row[name] for name in names_)) for row in answers]
    assert sorted(shown) == sorted(wanted)
    one = answers[0]["subscription_id"]
    document = home.run("answers", one)
    assert document["complete"]
    rows = [row[name] for row in document["answers"] for name in names_]
    assert rows == [row[name] for row in answers if row["subscription_id"] == one for name in names_]


def made_home(folder: Path) -> Home:
    return new_home(folder / "home", engine="local", workers=2, lateness_seconds=10_000_000, max_ahead_seconds=0)


@pytest.mark.parametrize(("seed", "cuts"), [(1, 20), (2, 1)])
def test_changes_add_up_to_the_reports_of_the_twin(seed: int, cuts: int, tmp_path: Path) -> None:
    rnd = random.Random(seed)
    things, asked = some_objects(rnd, 60), some_requests(rnd, 12)
    home = made_home(tmp_path)
    parts: dict[str, list[list[Row]]] = {
        kind: [rows[len(rows) * n // cuts : len(rows) * (n + 1) // cuts] for n in range(cuts)]
        for kind, rows in (("requests", asked), ("objects", things))
    }
    order = [kind for _ in range(cuts) for kind in rnd.sample(("requests", "objects"), 2)]
    done = {"requests": 0, "objects": 0}
    for place, kind in enumerate(order):
        part = parts[kind][done[kind]]
        done[kind] += 1
        if part:
            home.ingest(kind, [write_rows(tmp_path / f"{kind}-{place}.jsonl", part)])
        if place % 2:
            home.match()
    home.match()
    expected = reports_of(published(things), asked)
    assert len(expected) > 50
    assert logged_reports(home) == expected
    assert_shown(home, published(things), asked, expected, tmp_path)
    assert home.run("check", "--all")["success"]


@pytest.mark.parametrize(("seed", "erases"), [(3, False), (6, True)])
def test_reports_are_those_of_the_twin_after_withdrawals_among_late_objects(
    seed: int, erases: bool, tmp_path: Path
) -> None:
    rnd = random.Random(seed)
    things, asked, home = some_objects(rnd, 60), some_requests(rnd, 12), made_home(tmp_path)
    left, taken = list[Row](), list[Row]()
    home.ingest("requests", [write_rows(tmp_path / "r.jsonl", asked)])
    for batch in range(6):
        part = things[10 * batch : 10 * batch + 10]
        home.ingest("objects", [write_rows(tmp_path / f"o{batch}.jsonl", part)])
        left += part
        # The newest of them lowers stream time; others are in the middle, or not matched yet.
        gone = rnd.sample(left, 2) + [max(left, key=lambda row: row["ts"])] if batch % 2 else []
        if gone:
            ids = {row["object_id"] for row in gone}
            home.run("withdraw", *(word for one in ids for word in ("--object-id", one)))
            left = [row for row in left if row["object_id"] not in ids]
            taken += [row for row in gone if erases]
        home.match()
        if taken:
            home.run("erase", *(word for row in taken for word in ("--object-id", row["object_id"])))
            taken = []
        assert logged_reports(home) == reports_of(published(left), asked)
    assert len(left) < 55 and logged_reports(home)


@pytest.mark.parametrize("erased", [False, True])
def test_a_withdrawal_asks_for_the_reports_of_its_objects(
    erased: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, asked = made_home(tmp_path), [ON_THE_DAY | {"k": 2}, ON_THE_DAY | FAR_AWAY | {"k": 2}]
    things = at_times(*((f"{hour:02}:{minute}", f"tea word{hour}") for hour in range(20) for minute in (10, 40)))
    home.ingest("requests", [write_rows(tmp_path / "r.jsonl", asked)])
    home.ingest("objects", [write_rows(tmp_path / "o.jsonl", things)])
    home.match()
    pairs, ask = list[int](), log_reports._ask
    counted = lambda *given: pairs.append(len(given[4].owner)) or ask(*given)  # noqa: E731
    monkeypatch.setattr(log_reports, "_ask", counted)
    home.run("withdraw", "--object-id", "06:10")
    if erased:
        home.run("erase", "--object-id", "06:10")
    home.match()
    left = [row for row in things if row["object_id"] != "06:10"]
    assert logged_reports(home) == reports_of(published(left), asked)
    # Two subscriptions, then three ticks and the one after them: which of them are concerned, before and after.
    assert erased or sum(pairs) == 2 + 4 + 4 + 4


def test_a_batch_that_passes_no_tick_counts_no_stored_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, asked = made_home(tmp_path), [ON_THE_DAY | {"k": 2}]
    things = at_times(("08:10", "tea"), ("10:05", "cake"))
    home.ingest("requests", [write_rows(tmp_path / "r.jsonl", asked)])
    counted(home, tmp_path, "o", things)
    sums, count_by_time = list[int](), ObjectSnapshot.count_by_time

    def count(*given: Any) -> np.ndarray:
        counts = count_by_time(*given)
        sums.append(counts.sum())
        return counts

    monkeypatch.setattr(ObjectSnapshot, "count_by_time", count)
    assert counted(home, tmp_path, "p", at_times(("10:20", "tea"))) == [] and sum(sums) == 0
    last = at_times(("11:00", "end"))
    assert counted(home, tmp_path, "q", last) and sum(sums) > 0
    assert logged_reports(home) == reports_of(published([*things, *at_times(("10:20", "tea")), *last]), asked)


def test_erased_words_and_subscriptions_leave_the_reports(tmp_path: Path) -> None:
    home = made_home(tmp_path)
    head = {"op": "insert", "kind": "frequent_terms", "created_at": moment(0), "window": "2h", "step": "1h"}
    asked = [head | {"subscription_id": one, "bbox": [-1, -1, 1, 1], "k": 5} for one in ("stays", "goes")]
    knn = {"op": "insert", "subscription_id": "near", "kind": "knn", "k": 9, "created_at": moment(0)}
    asked.append(knn | {"keywords": "*", "point": {"lon": 0, "lat": 0}})
    things = [
        {"object_id": str(step), "ts": moment(step), "lon": 0.0, "lat": 0.0, "text": text}
        for step, text in ((1, "tea"), (2, "tea secret"), (8, "cake"), (20, "end"))
    ]
    home.ingest("requests", [write_rows(tmp_path / "r.jsonl", asked)])
    home.ingest("objects", [write_rows(tmp_path / "o.jsonl", things)])
    home.match()
    before = {(row["subscription_id"], row["term"]) for row in read_rows(home, "changes", tmp_path)}
    assert {("stays", "secret"), ("goes", "secret"), ("goes", "tea")} <= before
    of_knn = [row for row in read_rows(home, "changes", tmp_path) if row["kind"] == "knn" and row["object_id"] != "2"]
    planned = home.run("erase", "--object-id", "2", "--subscription-id", "goes", "--dry-run")["rows"]
    done = home.run("erase", "--object-id", "2", "--subscription-id", "goes", "--vacuum-now")["rows"]
    assert done["answer_log"] == planned["answer_log"] > 0
    rows = read_rows(home, "changes", tmp_path)
    left = {(row["subscription_id"], row["term"]) for row in rows if row["kind"] == "frequent_terms"}
    assert left == {one for one in before if one[0] == "stays" and one[1] not in (None, "secret")}
    assert [row for row in rows if row["kind"] == "knn" and row["object_id"] is not None] == of_knn
    stored = b"".join(path.read_bytes() for path in (home.path / "tables" / "answer_log").rglob("*") if path.is_file())
    assert b"secret" not in stored and b"change" in stored
    home.ingest("objects", [write_rows(tmp_path / "p.jsonl", [things[2] | {"object_id": "late"}])])
    home.match()
    assert ("cake", 2) in {(row["term"], row["count"]) for row in read_rows(home, "changes", tmp_path)}
    assert home.run("check", "--all")["success"]


def counted(home: Home, folder: Path, name: str, rows: list[Row], kind: str = "objects") -> list[Row]:
    """Match some rows; return the changes of this batch."""
    before = len(read_rows(home, "changes", folder))
    home.ingest(kind, [write_rows(folder / f"{name}.jsonl", rows)])
    home.match()
    return read_rows(home, "changes", folder)[before:]


def at_times(*texts: tuple[str, str]) -> list[Row]:
    """Objects of a day in one place: (time of day, text)."""
    place = {"lon": 0.0, "lat": 0.0}
    return [place | {"object_id": ts, "ts": f"2026-03-01T{ts}:00Z", "text": text} for ts, text in texts]


ON_THE_DAY = {"op": "insert", "subscription_id": "s", "kind": "frequent_terms", "created_at": "2026-03-01T00:00:00Z"}
ON_THE_DAY |= {"bbox": [-1, -1, 1, 1], "window": "3h", "step": "1h"}
FAR_AWAY = {"subscription_id": "far", "bbox": [50, 50, 51, 51]}


def test_the_erasure_of_the_newest_object_leaves_stream_time(tmp_path: Path) -> None:
    home, asked = made_home(tmp_path), [ON_THE_DAY | {"k": 2}]
    things = at_times(("08:10", "tea"), ("10:05", "cake"))
    counted(home, tmp_path, "r", asked, "requests")
    assert len(counted(home, tmp_path, "o", things)) == 2
    home.run("erase", "--object-id", "10:05")
    later = at_times(("10:20", "coffee"))
    assert counted(home, tmp_path, "p", later) == [], "no tick is passed"
    assert logged_reports(home) == reports_of(published(things + later), asked)
    home.run("erase", "--object-id", "10:20")
    deletion = [{"op": "delete", "subscription_id": "s", "at": "2026-03-01T09:30:00Z"}]
    left = counted(home, tmp_path, "d", deletion, "requests")
    assert [(row["change"], row["as_of"][11:13], row["term"]) for row in left] == [("left", "10", "tea")]
    assert logged_reports(home) == reports_of(published(things + later), asked + deletion)


def test_the_first_tick_without_a_word_sends_an_empty_report(tmp_path: Path) -> None:
    """A late object corrects it, and moves it; later ticks without a word send nothing."""
    home, asked = made_home(tmp_path), [ON_THE_DAY | {"k": 2, "window": "1h", "stop_words": ["end"]}]
    counted(home, tmp_path, "r", asked, "requests")
    things = at_times(("02:30", "tea"), ("07:00", "end"))
    shown = lambda rows: sorted((row["as_of"][11:13], row["change"], row["term"], row["count"]) for row in rows)  # noqa: E731
    assert shown(counted(home, tmp_path, "o", things)) == [("03", "entered", "tea", 1), ("04", "entered", "", 0)]
    assert read_rows(home, "answers", tmp_path) == [] and home.run("answers", "s")["answers"] == []
    late = at_times(("03:20", "cake"))
    assert shown(counted(home, tmp_path, "late", late)) == [
        ("04", "entered", "cake", 1),
        ("04", "left", "", 0),
        ("05", "entered", "", 0),
    ]
    home.run("withdraw", "--object-id", "02:30")
    assert shown(counted(home, tmp_path, "end", at_times(("08:00", "end")))) == [("03", "left", "tea", 1)]
    left = [*late, *things[1:], *at_times(("08:00", "end"))]
    assert logged_reports(home) == reports_of(published(left), asked)
    assert home.run("check", "--all")["success"]


def test_erased_pairs_of_characters_leave_the_reports(tmp_path: Path) -> None:
    """A pair stays that another text has."""
    home, asked = made_home(tmp_path), [ON_THE_DAY | {"k": 9}]
    counted(home, tmp_path, "r", asked, "requests")
    things = at_times(("08:05", "東京駅の"), ("08:10", "東、京"), ("08:20", "駅 の?"), ("09:00", "京 x 駅"))
    assert {row["term"] for row in counted(home, tmp_path, "o", things)} == {"東京", "京駅", "駅の", "x"}
    home.run("erase", "--object-id", "08:05")
    assert {row["term"] for row in read_rows(home, "changes", tmp_path)} == {"東京", "駅の", "x"}
    assert home.run("check", "--all")["success"]


def test_a_late_object_corrects_a_report_whose_objects_were_erased(tmp_path: Path) -> None:
    home, asked = made_home(tmp_path), [ON_THE_DAY | {"k": 1}]
    things = at_times(("08:05", "cake"), ("08:10", "cake"), ("08:15", "cake"), ("08:20", "tea"), ("08:25", "tea"))
    counted(home, tmp_path, "r", asked, "requests")
    counted(home, tmp_path, "o", [*things, *at_times(("09:00", "end"))])
    home.run("erase", "--object-id", "08:05", "--object-id", "08:10")
    assert counted(home, tmp_path, "far", at_times(("09:01", "end"))) == [], "reports are not counted again"
    late = at_times(("08:30", "tea"))
    changes = counted(home, tmp_path, "late", late)
    assert sorted((row["change"], row["term"], row["count"], row["rank"]) for row in changes) == [
        ("entered", "tea", 3, 1),
        ("left", "cake", 3, 1),
    ]
    left = [*things[2:], *late, *at_times(("09:00", "end"), ("09:01", "end"))]
    assert logged_reports(home) == reports_of(published(left), asked)
    assert [(row["term"], row["count"]) for row in read_rows(home, "answers", tmp_path)] == [("tea", 3)]
    assert home.run("check", "--all")["success"]


def test_reports_of_windows_without_objects_are_retracted_after_an_erasure(tmp_path: Path) -> None:
    home, asked = made_home(tmp_path), [ON_THE_DAY | {"k": 2}]
    things = at_times(("02:10", "tea"), ("02:20", "tea cake"), ("06:30", "cake"), ("12:00", "cake"), ("12:30", "tea"))
    counted(home, tmp_path, "r", asked, "requests")
    counted(home, tmp_path, "o", things)
    before = logged_reports(home)
    home.run("erase", "--object-id", "06:30", "--object-id", "12:30")
    deletion = [{"op": "delete", "subscription_id": "s", "at": "2026-03-01T08:00:00Z"}]
    counted(home, tmp_path, "d", deletion, "requests")
    assert logged_reports(home) == reports_of(published(things), asked + deletion) < before
    home.run("withdraw", "--object-id", "12:00")
    home.match()
    left = [row for row in things if row["object_id"] in ("02:10", "02:20")]
    assert logged_reports(home) == reports_of(published(left), asked + deletion)


def test_reports_of_removed_objects_are_removed_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = new_home(tmp_path / "home", engine="local", workers=2, lateness_seconds=3600, max_ahead_seconds=0)
    head = {"op": "insert", "subscription_id": "s", "kind": "frequent_terms", "created_at": moment(0)}
    asked = [head | {"bbox": [-1, -1, 1, 1], "k": 2, "window": "1h", "step": "1h"}]
    times = ["2026-03-01T00:30:00Z", "2026-03-03T00:30:00Z", "2026-03-05T00:30:00Z", "2026-03-05T02:00:00Z"]
    things = [{"object_id": str(n), "ts": ts, "lon": 0.0, "lat": 0.0, "text": f"word{n}"} for n, ts in enumerate(times)]
    home.ingest("requests", [write_rows(tmp_path / "r.jsonl", asked)])
    home.ingest("objects", [write_rows(tmp_path / "o.jsonl", things)])
    home.match()
    terms = [row["term"] for row in read_rows(home, "changes", tmp_path)]
    assert sorted(terms) == ["", "", "word0", "word1", "word2", "word3"]
    set_clock(monkeypatch, dt.datetime(2026, 3, 6, tzinfo=dt.UTC))
    expired = home.run("maintain", "--keep", "objects=2d,matches=2d")["rows_expired"]
    assert expired == {"answer_log": 4, "objects": 2}
    assert sorted(row["term"] for row in read_rows(home, "changes", tmp_path)) == ["word2", "word3"]
    assert home.run("check", "--all")["success"]


def test_stream_time_that_jumps_over_years_costs_only_ticks_with_objects(tmp_path: Path) -> None:
    home = made_home(tmp_path)
    head = {"op": "insert", "subscription_id": "s", "kind": "frequent_terms", "created_at": "1990-01-01T00:00:00Z"}
    asked = [head | {"bbox": [-1, -1, 1, 1], "k": 2, "window": "1h", "step": "1h"}]
    things = [
        {"object_id": ts, "ts": ts, "lon": 0.0, "lat": 0.0, "text": "tea"}
        for ts in ("1990-01-01T00:30:00Z", "2026-01-01T00:30:00Z", "2026-01-01T02:00:00Z")
    ]
    home.set(max_past_steps=1_000_000)
    home.ingest("requests", [write_rows(tmp_path / "r.jsonl", asked)])
    home.ingest("objects", [write_rows(tmp_path / "o.jsonl", things)])
    home.match()
    hours = ("1990-01-01T01:00:00Z", "2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z")
    empty = (0, time_us("1990-01-01T02:00:00Z"), "", 0)
    assert logged_reports(home) == {(0, time_us(hour), "tea", 1) for hour in hours} | {empty}
