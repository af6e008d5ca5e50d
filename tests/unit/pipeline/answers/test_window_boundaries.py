"""Answers with count windows after an erasure: changes add up, and boundaries are those that were logged."""

import json
from pathlib import Path

import numpy as np

from pststream.answers.contract import BatchEnd, Values
from pststream.base import names
from pststream.pipeline.answers import fold_bucket
from pststream.pipeline.answers.bucket_snapshots import list_boundary_files, with_logged_boundaries, write_boundaries
from pststream.search.object_snapshot import LAST_KEY
from pststream.state.data_files import commit_files
from pststream.state.home import Home as State
from tests import worlds
from tests.commands import Home, new_home
from tests.standing_worlds import StandingTwin


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
        "window": {"objects": 3}, "created_at": worlds.moment(0),
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
