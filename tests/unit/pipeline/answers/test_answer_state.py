"""The state of the answers of a bucket: logged rows, boundaries of count windows, parts of evaluations, and counts."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pststream.answers.contract import Asked, BatchEnd, Changes, Folded, Logged, Thresholds, Values
from pststream.answers.fold import split_asked
from pststream.base import names
from pststream.pipeline.answers import fold_bucket, log_rows
from pststream.pipeline.answers.bucket_snapshots import (
    list_boundary_files,
    with_logged_boundaries,
    write_boundaries,
    write_snapshot,
)
from pststream.pipeline.answers.log_rows import FoldedWriter, read_state
from pststream.pipeline.answers.unit_candidates import read_thresholds
from pststream.search.object_snapshot import LAST_KEY
from pststream.state.data_files import commit_files
from pststream.state.home import Home as State
from tests import worlds
from tests.commands import Home, new_home
from tests.fuzz.cases import seeds
from tests.standing_worlds import StandingTwin

INF = float("inf")


def folded(entries: list[tuple], limits: list[tuple], changes: list[tuple] = ()) -> Folded:
    """Make what a batch changes: (subscription, object, ts, value), (subscription, value, ts, object, reset)."""

    def arrays(rows: list[tuple], *types: type) -> list[np.ndarray]:
        return [np.array([row[place] for row in rows], kind) for place, kind in enumerate(types)]

    number, real, flag = np.int64, np.float32, np.bool_
    return Folded(
        Values(*arrays(entries, number, number, number, real)),
        Thresholds(*arrays(limits, number, real, number, number, flag)),
        Changes(*arrays(changes, number, flag, np.int32, number, number, real)),
        Asked(*(np.empty(0, number) for _ in range(3))),
    )


def commit(home: State, batch_id: int, bucket: int, rows: Folded) -> None:
    writer = FoldedWriter(home, batch_id, bucket)
    writer.write(rows)
    commit_files(home, names.ANSWER_LOG, writer.close(), application="test", transaction=100 * batch_id + bucket)


def read(home: State, bucket: int, after: int, up_to: int) -> tuple[list[tuple], list[tuple]]:
    parts = list(read_state(home, bucket, after, up_to, [np.arange(5, 9)]))
    for before, part in pairwise(parts):
        assert (part.entries.subscription > before.up_to).all() and (part.thresholds.subscription > before.up_to).all()
    return (
        sorted(row for part in parts for row in zip(*(column.tolist() for column in part.entries))),
        sorted(row for part in parts for row in zip(*(column.tolist() for column in part.thresholds))),
    )


@pytest.mark.parametrize("read_rows", [1, 4, 1_000])
def test_a_reset_makes_earlier_entries_void_and_the_last_limit_counts(
    hand_home: State, read_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_rows, "READ_ROWS", read_rows)
    commit(hand_home, 1, 0, folded([(5, 50, 1, 1.0), (6, 60, 1, 1.0)], [(5, 9.0, 1, 90, True), (6, 8.0, 1, 80, True)]))
    commit(hand_home, 2, 0, folded([(5, 51, 2, 2.0), (6, 61, 2, 2.0)], [(5, 7.0, 2, 51, True)]))
    commit(hand_home, 3, 0, folded([(5, 52, 3, 3.0), (6, 62, 3, 3.0)], [(6, 4.0, 3, 62, False)]))
    every = ([(5, 51, 2, 2.0), (5, 52, 3, 3.0), (6, 60, 1, 1.0), (6, 61, 2, 2.0), (6, 62, 3, 3.0)],
             [(5, 7.0, 2, 51, True), (6, 4.0, 3, 62, True)])  # fmt: skip
    assert read(hand_home, 0, 0, 3) == every
    assert read(hand_home, 0, 2, 3) == ([(5, 52, 3, 3.0), (6, 62, 3, 3.0)], [(6, 4.0, 3, 62, False)])


def test_the_last_thresholds_of_all_buckets(hand_home: State) -> None:
    def thresholds(after: int, up_to: int, snapshot: bool = False) -> dict[int, float]:
        keys, values = read_thresholds(hand_home, after, up_to, snapshot)
        assert (np.diff(keys) > 0).all()
        return dict(zip(keys.tolist(), values.tolist(), strict=True))

    assert thresholds(0, 0, snapshot=True) == {}
    commit(hand_home, 1, 0, folded([(5, 50, 500, -0.5)], [(5, -0.5, 500, 50, True), (6, INF, names.NO_TIME, -1, True)]))
    commit(hand_home, 1, 1, folded([], [(7, -0.25, 700, 70, True)]))
    commit(hand_home, 2, 0, folded([(6, 61, 610, -0.75)], [(5, -0.625, 500, 50, False)]))
    commit(hand_home, 3, 1, folded([], [(7, -0.125, 710, 71, True)]))
    assert thresholds(0, 1) == {5: -0.5, 6: INF, 7: -0.25}
    assert thresholds(1, 2) == {5: -0.625} and thresholds(3, 9) == {}
    assert thresholds(0, 3) == {5: -0.625, 6: INF, 7: -0.125}
    kept = folded(
        [(5, 50, 500, -0.5), (5, 51, 510, -0.75)], [(5, -0.5, 500, 50, True), (8, INF, names.NO_TIME, -1, True)]
    )
    file = write_snapshot(hand_home, 2, 0, [Logged(kept.entries, kept.thresholds)])
    assert file is not None
    commit_files(hand_home, names.ANSWERS, [file], application="snapshots", transaction=2)
    assert thresholds(2, 3, snapshot=True) == {5: -0.5, 7: -0.125, 8: INF}


def made_folded(kept: np.ndarray) -> Folded:
    key, one = np.arange(len(kept)), np.ones(1, np.int64)
    known = Values(one, one, one, one), Thresholds(one, one, one, one, one), Changes(one, one, one, one, one, one)
    return Folded(*known, Asked(key, kept, kept))


@seeds(4)
def test_parts_of_an_evaluation_have_bounded_sizes(seed: int) -> None:
    kept = np.random.default_rng(seed).choice(np.array([1, 2, 30, 200], np.int32), 300, p=[0.7, 0.2, 0.07, 0.03])
    folded = list(split_asked(made_folded(kept), 20, 100))
    parts = [part.asked.kept for part in folded]
    assert np.array_equal(np.concatenate(parts), kept)
    assert np.array_equal(np.concatenate([part.asked.subscription for part in folded]), np.arange(300))
    assert not len(parts[0])
    assert all(0 < len(part) <= 20 and (part.sum() <= 100 or len(part) == 1) for part in parts[1:])
    assert 15 <= len(parts) < 80


@pytest.mark.parametrize("asked", [0, 1, 50])
def test_what_is_known_is_in_the_first_part_alone(asked: int) -> None:
    parts = list(split_asked(made_folded(np.ones(asked, np.int32)), 20, 100))
    assert [len(part.asked.kept) for part in parts] == {0: [0], 1: [0, 1], 50: [0, 20, 20, 10]}[asked]
    rows = [[len(known.subscription) for known in part[:3]] for part in parts]
    assert rows == [[1, 1, 1], *[[0, 0, 0]] * (len(parts) - 1)]


def _ingest(home: Home, folder: Path, kind: str, rows: list[dict]) -> None:
    path = folder / f"{rows[0].get('object_id', rows[0].get('subscription_id'))}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    home.ingest(kind, [path])


def _objects(*numbers: int) -> list[dict]:
    return [
        {"object_id": f"o{n}", "ts": worlds.moment(n), "lon": float(n), "lat": 0.0, "text": "coffee"} for n in numbers
    ]


def _last_three(name: str) -> dict:
    return {
        "op": "insert", "subscription_id": name, "kind": "knn", "point": {"lon": 0.0, "lat": 0.0}, "k": 3,
        "keywords": "*", "window": {"objects": 3}, "created_at": worlds.moment(0),
    }  # fmt: skip


def test_an_erased_object_leaves_and_the_one_before_the_window_comes_back(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", planner="grid", workers=1, engine="local", lateness_seconds=100_000)
    _ingest(home, tmp_path, "requests", [_last_three("one")])
    _ingest(home, tmp_path, "objects", _objects(1, 2, 3))
    home.match()
    _ingest(home, tmp_path, "objects", _objects(4))
    home.match()
    home.run("erase", "--object-id", "o4")
    _ingest(home, tmp_path, "requests", [_last_three("other")])
    home.match()
    assert [row["object_id"] for row in home.run("answers", "one")["answers"]] == ["o1", "o2", "o3"]
    twin = StandingTwin(home)
    twin.batches = twin.batches[-1:]
    assert len(twin.answers(twin.batches[0])) == 6 == len(home.run("answers")["answers"])
    for number in (5, 6):  # `maintain` drops boundaries once two snapshots are newer
        home.run("maintain")
        _ingest(home, tmp_path, "objects", _objects(number))
        home.match()
    assert {file.low["batch_id"] for file in list_boundary_files(State(home.path), 0, 9)} == {4, 5}
    home.run("maintain")
    assert {file.low["batch_id"] for file in list_boundary_files(State(home.path), 0, 9)} == {5}


def test_boundaries_are_those_of_the_batch_and_the_bucket(tmp_path: Path) -> None:
    home = State(new_home(tmp_path / "home").path)
    windows, all_objects = np.array([5, 10, 20]), (names.NO_TIME, LAST_KEY)
    for batch_id, bucket in ((1, 0), (2, 0), (2, 1)):
        logged = np.array([(100 * batch_id + bucket, 7), all_objects, (3, 4)])
        files = write_boundaries(home, bucket, BatchEnd(batch_id, 0, 0, windows, logged))
        commit_files(home, "answer_log", files, application=f"test-{bucket}", transaction=batch_id)
    assert not write_boundaries(home, 0, BatchEnd(3, 0, 0, windows[:0], logged[:0]))
    asked = BatchEnd(2, 0, 0, np.array([5, 10, 15]), np.array([(1, 1), (2, 2), (9, 9)]))
    assert with_logged_boundaries(home, 0, asked).boundaries.tolist() == [[200, 7], [*all_objects], [9, 9]]
    assert with_logged_boundaries(home, 1, asked).boundaries.tolist() == [[201, 7], [*all_objects], [9, 9]]
    assert with_logged_boundaries(home, 0, asked._replace(batch_id=3)).boundaries.tolist() == asked.boundaries.tolist()


class _NoQueries:
    """Subscriptions of which none may be asked for."""

    def select(self, keys: np.ndarray) -> tuple[np.ndarray, None]:
        assert not len(keys)
        return np.empty(0, bool), None


def test_entries_of_subscriptions_that_ended_again_need_no_boundary(monkeypatch) -> None:
    monkeypatch.setattr(fold_bucket, "windows_start", lambda *_: np.empty((0, 2), np.int64))
    entries = Values(np.array([7, 7]), np.array([1, 2]), np.array([5, 6]), np.array([1.0, 2.0], np.float32))
    end = BatchEnd(9, 100, 50, np.empty(0, np.int64), np.empty((0, 2), np.int64))
    kept = fold_bucket._that_count(_NoQueries(), entries, end, np.array([3, 8]))
    assert not len(kept.subscription)


POINT = {"point": {"lon": 0.0, "lat": 0.0}, "k": 1, "created_at": "2026-01-01T00:00:00Z"}
REQUESTS = [
    {"subscription_id": "near", "kind": "knn", "keywords": "tea", **POINT},
    {"subscription_id": "best", "kind": "topk", "keywords": "tea", "window": "10h", "alpha": 0.5, **POINT},
    {"subscription_id": "words", "kind": "frequent_terms", "bbox": [-1, -1, 1, 1], "k": 2, "window": "2h", "step": "1h",
     "created_at": POINT["created_at"]},
    {"subscription_id": "box", "keywords": "tea", "bbox": [-1, -1, 1, 1], "created_at": POINT["created_at"]},
]  # fmt: skip


def batch_of(home: Home, folder: Path, *objects: tuple[str, str, float, str]) -> dict[str, Any]:
    """Match objects (id, time of day, longitude, text) as one batch; return its row of `status`."""
    path = folder / f"{objects[0][0]}.jsonl"
    rows = (
        {"object_id": o, "ts": f"2026-01-01T{at}:00Z", "lon": lon, "lat": 0, "text": t} for o, at, lon, t in objects
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    home.ingest("objects", [path])
    home.match()
    status = home.run("status")
    return {name: status["batches"][-1][name] for name in ("candidates", "changes", "evaluations")}


def test_counts_of_each_batch(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", engine="local", workers=2, planner="grid")
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps({"op": "insert", **row}) + "\n" for row in REQUESTS))
    home.ingest("requests", [path])
    first = batch_of(home, tmp_path, ("a", "08:30", 0.5, "tea"), ("b", "08:40", 0.2, "green tea"))
    assert first == {"candidates": {}, "changes": {"knn": 1, "topk": 1}, "evaluations": {"knn": 1, "topk": 1}}
    # The new object is nearer; it passes the tick of 09:00, whose report has two words.
    second = batch_of(home, tmp_path, ("c", "09:10", 0.1, "tea"))
    assert second["candidates"] == {"knn": 1, "topk": 1} and second["evaluations"] == {"frequent_terms": 1}
    assert second["changes"] == {"frequent_terms": 2, "knn": 2, "topk": 2}
    far = batch_of(home, tmp_path, ("d", "09:20", 0.9, "coffee"))
    assert far == {"candidates": {}, "changes": {}, "evaluations": {}}
    totals = home.run("status")["totals"]
    assert totals["changes"] == {"frequent_terms": 2, "knn": 3, "topk": 3}
    assert totals["evaluations"] == {"frequent_terms": 1, "knn": 1, "topk": 1}
