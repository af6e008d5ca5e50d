"""After every batch the answers of `knn` and `topk` subscriptions are those of the twin: a function of the two logs.

Worlds are random; late objects, late subscriptions, deletions, expiry, insertions again and bad rows are in all of
them. The twin judges every batch of a run, so cuts, plans and changes in between need no run of their own.
"""

import datetime as dt
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq
import pytest

import pststream
from pststream.answers.bucket_file import HEADER
from pststream.base.utc_times import utc_now
from pststream.pipeline.answers import answer_context
from pststream.reports.reading import standing_answers
from pststream.reports.reading.standing_answers import StandingAnswers
from pststream.state import erasures
from pststream.state.home import Home as State
from pststream.tables.delta_tables import TableReader, read_table
from tests import worlds
from tests.commands import Home, run_here
from tests.oracles.twin_rows import time_us
from tests.standing_worlds import StandingTwin, nearest, standing_home, write_standing_world
from tests.unbalanced_homes import RESTLESS

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

FILES = 7

BETWEEN = (
    *("plan", "states", "torn", "dirty", "node", "restore", "withdraw", "local", "undo", "balance", "maintain"),
    "statistics",
)
"""What is done to a home between batches."""


@pytest.fixture(scope="module")
def matched(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with answers, whose batches came one file after the other; not to be changed."""
    folder = tmp_path_factory.mktemp("matched")
    world = write_standing_world(folder / "files", 1, FILES)
    home = standing_home(folder / "home", world, planner="kd_tree", workers=5)
    for requests, objects in zip(world.requests, world.objects):
        home.ingest("requests", [requests])
        home.ingest("objects", [objects])
        home.match("--max-objects", "11")
    return home


@pytest.mark.promise
def test_answers_after_each_of_many_small_batches(matched: Home) -> None:
    StandingTwin(matched).assert_answers_after_each_batch()


@pytest.mark.promise
@pytest.mark.parametrize(("seed", "cuts", "workers"), [(2, 1, 1), pytest.param(3, 15, 16, marks=pytest.mark.deep)])
def test_answers_do_not_depend_on_the_cut(tmp_path: Path, seed: int, cuts: int, workers: int) -> None:
    world = write_standing_world(tmp_path / "files", seed, FILES)
    home = standing_home(tmp_path / "home", world, workers=workers)
    home.ingest("objects", world.objects)
    home.ingest("requests", world.requests)
    assert len(home.match("--max-objects", str(-(-150 // cuts)))["batches"]) >= cuts
    StandingTwin(home).assert_answers_after_each_batch()


def test_answers_with_other_plans_lost_states_withdrawals_and_upkeep_in_between(tmp_path: Path) -> None:
    """In one order; test_topk_plans.py has another."""
    rnd = random.Random(5)
    world = write_standing_world(tmp_path / "files", 5, len(BETWEEN) + 1)
    home = standing_home(tmp_path / "home", world, merge_files=3, **RESTLESS)
    between = rnd.sample(BETWEEN, len(BETWEEN))
    for requests, objects, what in zip(world.requests, world.objects, ["", *between]):
        home.ingest("requests", [requests])
        home.ingest("objects", [objects])
        disturb(home, what, rnd, tmp_path)
        home.match("--max-objects", "9")
    StandingTwin(home).assert_answers_after_each_batch()
    assert home.run("check")["success"]


def disturb(home: Home, what: str, rnd: random.Random, folder: Path) -> None:
    if what == "plan":
        home.run("plan", "--planner", "frequency", "--workers", "6")
    if what in ("states", "torn", "dirty"):
        _damage_states(home, what)
    if what == "node":
        home.set(cache_dir=str(folder / "another-node"))
    if what == "restore":
        _restore(home, folder)
    if what == "withdraw":
        twin = StandingTwin(home)
        newest = sorted(twin.objects.values(), key=lambda row: row["ts"])[-rnd.choice((3, 20)) :]
        (folder / "ids").write_text("".join(f"{row['object_id']}\n" for row in newest))
        home.run("withdraw", "--object-ids", folder / "ids")
    if what == "local":
        home.run("balance", "local", "--apply")
    if what == "undo":
        home.run("balance", "local", "--apply")
        home.run("balance", "undo", "--apply")
    if what == "balance":
        home.run("balance", "global", "--planner", "kd_tree", "--apply")
    if what == "maintain":
        home.run("maintain")
        _assert_last_pieces(home)
    if what == "statistics":
        home.run("term-statistics")


def _assert_last_pieces(home: Home) -> None:
    """Assert that the index has of each live subscription with memory the pieces of one batch, and no others."""
    rows = read_table(State(home.path).table("worker_index")).to_pylist()
    pieces = [row for row in rows if row["kind"] is not None]
    assert pieces
    batches: dict[int, set[int]] = {}
    for row in pieces:
        batches.setdefault(row["subscription_key"], set()).add(row["batch_id"])
    assert {len(of_one) for of_one in batches.values()} == {1}
    latest = time_us(StandingTwin(home).batches[-1]["stream_time"])
    assert all(row["end_at"] > latest for row in pieces)


def _restore(home: Home, folder: Path) -> None:
    """Back the home up, match what is pending, and restore the backup: the states are then of later batches."""
    home.run("backup", "--out", folder / "backup")
    home.match("--max-objects", "20")
    shutil.rmtree(home.path)
    shutil.copytree(folder / "backup", home.path)


def _damage_states(home: Home, what: str) -> None:
    """Delete the files of the buckets' states, truncate some, or leave some as a killed process does."""
    states = answer_context.states_of_home(State(home.path))
    for folder in answer_context.states_folder("").glob(states):
        if what == "states":
            shutil.rmtree(folder)
            continue
        for path in sorted(path for path in folder.rglob("*") if path.is_file())[::2]:
            if what == "torn":
                path.write_bytes(path.read_bytes()[:1000])
            else:
                _leave_dirty(path)


def _leave_dirty(path: Path) -> None:
    """Mark a state as being written, with other entries than it had; another file stays."""
    if path.name.isdigit():
        whole = np.fromfile(path, np.uint8)
        whole[HEADER.itemsize :] = 1
        whole[: HEADER.itemsize].view(HEADER)["clean"] = 0
        whole.tofile(path)


def test_states_of_batches_that_a_restore_has_undone_are_not_used(tmp_path: Path) -> None:
    """A node has a state of a batch; another batch of the same number is run after the restore, on another node."""
    world = write_standing_world(tmp_path / "files", 11, 6)
    home = standing_home(tmp_path / "home", world, cache_dir=str(tmp_path / "node"))
    home.ingest("requests", world.requests[:4])
    home.ingest("objects", world.objects[:1])
    home.match()
    home.run("backup", "--out", tmp_path / "backup")
    home.ingest("objects", world.objects[1:3])
    assert len(home.match("--max-objects", "10")["batches"]) == 5
    shutil.rmtree(home.path)
    shutil.copytree(tmp_path / "backup", home.path)
    home.set(cache_dir=str(tmp_path / "another-node"))
    home.ingest("requests", world.requests[4:])
    home.ingest("objects", world.objects[3:5])
    assert len(home.match("--max-objects", "10")["batches"]) == 5
    home.set(cache_dir=str(tmp_path / "node"))
    home.ingest("objects", world.objects[5:])
    home.match()
    StandingTwin(home).assert_answers_after_each_batch()


def test_erased_objects_and_subscriptions_leave_answers_with_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the clock is set back before the erasure."""
    world = write_standing_world(tmp_path / "files", 10, 2, objects=80, subscriptions=30)
    home = standing_home(tmp_path / "home", world)
    home.ingest("requests", world.requests)
    home.ingest("objects", world.objects[:1])
    home.match()
    answers = exported(home, "answers")
    object_id, subscription_id = answers[0]["object_id"], answers[-1]["subscription_id"]
    monkeypatch.setattr(erasures, "utc_now", lambda: utc_now() - dt.timedelta(days=1))
    home.run("erase", "--object-id", object_id, "--subscription-id", subscription_id)
    home.ingest("objects", world.objects[1:])
    home.match()
    twin, answers = StandingTwin(home), exported(home, "answers")
    assert object_id not in {row["object_id"] for row in answers}
    assert subscription_id not in {row["subscription_id"] for row in answers}
    assert exported_pairs(answers) == last_answers(twin)


def exported_pairs(rows: list[dict]) -> set[tuple]:
    """Return what identifies each row of an answer."""
    return {(row["subscription_id"], row["object_id"], row["ts"], value_of(row)) for row in rows}


def value_of(row: dict) -> float:
    """Return the distance of an exported row, or its score below 0."""
    assert (row["distance_m"] is None) == (row["kind"] == "topk") == (row["score"] is not None)
    return -row["score"] if row["kind"] == "topk" else row["distance_m"]


def last_answers(twin: StandingTwin) -> set[tuple]:
    """Return the answers of the twin after the last batch, as `exported_pairs`."""
    return {
        (twin.insertions[key]["subscription_id"], twin.objects[place]["object_id"], twin.objects[place]["ts"], value)
        for (key, place), (_, value) in twin.answers(twin.batches[-1]).items()
    }


def exported(home: Home, what: str, *options: str) -> list[dict]:
    out = home.path.parent / f"{home.path.name}-{what}.parquet"
    home.run("export", what, "--out", out, *options)
    return pq.read_table(out).to_pylist()


def test_exported_answers_are_those_of_the_twin_and_the_sum_of_the_changes(matched: Home) -> None:
    twin = StandingTwin(matched)
    answers = exported(matched, "answers")
    assert exported_pairs(answers) == last_answers(twin)
    assert {r["kind"] for r in answers} == {"knn", "topk"} and {r["as_of"] for r in answers} == {
        twin.batches[-1]["stream_time"]
    }
    values: dict[str, list[float]] = {}
    for row in answers:
        values.setdefault(row["subscription_id"], []).append(value_of(row))
        assert row["rank"] == len(values[row["subscription_id"]])
    assert all(of_one == sorted(of_one) for of_one in values.values())
    current = set()
    for row in exported(matched, "changes"):
        pair = row["subscription_id"], row["object_id"], row["ts"], value_of(row)
        current.add(pair) if row["change"] == "entered" else current.remove(pair)
    assert current == last_answers(twin)


def test_python_reads_what_is_exported(matched: Home) -> None:
    opened = pststream.open(matched.path)
    assert opened.answers().to_pylist() == exported(matched, "answers")
    assert opened.changes(5).to_pylist() == exported(matched, "changes", "--since-batch", "5")


def test_changes_since_a_batch(matched: Home) -> None:
    changes = exported(matched, "changes")
    assert [r["batch_id"] for r in changes] == sorted(r["batch_id"] for r in changes)
    since = exported(matched, "changes", "--since-batch", "9")
    assert since == [row for row in changes if row["batch_id"] >= 9] and 0 < len(since) < len(changes)


def test_changes_are_the_same_however_many_are_read_at_a_time(matched: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home, read = State(matched.path), []
    whole = pa.concat_tables(StandingAnswers(TableReader(home)).changes())
    read_once = TableReader.batches_of

    def count(reader: TableReader, name: str, file: pds.Fragment, *args: Any) -> Iterator[pa.RecordBatch]:
        read.append((file.path, file.row_groups[0].id))
        return read_once(reader, name, file, *args)

    monkeypatch.setattr(TableReader, "batches_of", count)
    monkeypatch.setattr(standing_answers, "_ROWS", 5)
    parts = list(StandingAnswers(TableReader(home)).changes())
    assert len(parts) > 5 and pa.concat_tables(parts).equals(whole)
    assert len(read) == len(set(read)) > 5


def test_the_answer_of_one_subscription_on_a_terminal(matched: Home) -> None:
    answers = exported(matched, "answers")
    name = answers[0]["subscription_id"]
    shown = matched.run("answers", name)
    assert [row["object_id"] for row in shown["answers"]] == [
        row["object_id"] for row in answers if row["subscription_id"] == name
    ]
    assert len(matched.run("answers", "--limit", "3")["answers"]) == 3
    text = run_here("answers", "--home", matched.path).out
    assert name in text and "distance" in text
    assert "no subscription with memory" in matched.run("answers", "nobody", code=2)["error"]


def test_answers_of_named_worlds(tmp_path: Path) -> None:
    """All objects at one point, equal times, a word that no object has, k of one, a window smaller than a batch."""
    rnd = random.Random(9)
    things = [
        {"object_id": f"o{n}", "ts": worlds.moment(n // 4), "lon": 180.0, "lat": 10.0, "text": "coffee"}
        for n in range(40)
    ]
    base = {"point": {"lon": -180.0, "lat": 10.0}, "created_at": worlds.moment(0), "keywords": "coffee"}
    asked = [
        {**nearest(rnd, "one", 0), **base, "k": 1},
        {**nearest(rnd, "ten", 0), **base, "k": 10, "window": "600s"},
        {**nearest(rnd, "more", 0), **base, "k": 100, "window": None},
        {**nearest(rnd, "none", 0), **base, "keywords": "unheard", "window": {"objects": 3}},
        {**nearest(rnd, "pole", 0), **base, "point": {"lon": 0.0, "lat": -90.0}, "window": None},
    ]
    for name, rows in (("objects", things), ("requests", [{**row, "expires_at": None} for row in asked])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    world = worlds.WrittenWorld([tmp_path / "objects.jsonl"], [tmp_path / "requests.jsonl"], 0)
    home = standing_home(tmp_path / "home", world)
    home.ingest("requests", world.requests)
    home.ingest("objects", world.objects)
    home.match("--max-objects", "10")
    StandingTwin(home).assert_answers_after_each_batch()
