"""`maintain` writes snapshots of the answers and drops what they replace; the answers and later changes stay the same.

One home is kept up after every batch and loses the files of its states; the other is left alone.
"""

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pststream.base.utc_times import utc_now
from pststream.pipeline.answers import answer_context
from pststream.state.home import Home as State
from pststream.tables.delta_tables import read_table
from tests.commands import Home
from tests.erased_homes import set_clock
from tests.standing_worlds import StandingTwin, standing_home, write_standing_world

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

FILES = 6


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Home]:
    """The home that was kept up, and the one that was left alone; not to be changed."""
    folder = tmp_path_factory.mktemp("snapshots")
    world = write_standing_world(folder / "files", 21, FILES)
    kept_up, alone = (standing_home(folder / name, world) for name in ("kept_up", "alone"))
    for number, (requests, objects) in enumerate(zip(world.requests, world.objects, strict=True)):
        for home in (kept_up, alone):
            home.ingest("requests", [requests])
            home.ingest("objects", [objects])
            home.match("--max-objects", "9")
        kept_up.run("maintain")
        if number != 3:  # once, the files go on
            shutil.rmtree(states_of(kept_up))
    return kept_up, alone


def states_of(home: Home) -> Path:
    return answer_context.states_folder("") / answer_context.states_of_home(State(home.path))


def rows_of(home: Home, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_table(State(home.path).table(table)).to_pylist()
    return rows


def exported(home: Home, what: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the exported rows, and the document of the command."""
    out = home.path.parent / f"{home.path.name}-{what}.parquet"
    document = home.run("export", what, "--out", out)
    return pq.read_table(out).to_pylist(), document


def test_lost_states_are_built_from_snapshots_and_the_rest_of_the_log(homes: tuple[Home, Home]) -> None:
    kept_up, alone = homes
    StandingTwin(kept_up).assert_answers_after_each_batch()
    changes, document = exported(kept_up, "changes")
    assert changes == exported(alone, "changes")[0]
    assert exported(kept_up, "answers")[0] == exported(alone, "answers")[0]
    assert document["complete_from"] == 1
    assert kept_up.run("check")["success"]


def test_two_snapshots_stay_and_the_state_rows_after_the_older_one(homes: tuple[Home, Home]) -> None:
    kept_up, alone = homes
    batches = sorted({row["batch_id"] for row in rows_of(kept_up, "answers")})
    done = [batch["batch_id"] for batch in StandingTwin(kept_up).batches]
    assert len(batches) == 2 and batches[-1] == done[-1]
    state, every = ([r for r in rows_of(home, "answer_log") if r["part"] == "state"] for home in homes)
    assert min(row["batch_id"] for row in state) > batches[0]
    assert sorted(map(str, state)) == sorted(str(row) for row in every if row["batch_id"] > batches[0])


def test_the_first_k_of_a_snapshot_are_the_answers_of_the_twin(homes: tuple[Home, Home]) -> None:
    twin = StandingTwin(homes[0])
    last = twin.batches[-1]["batch_id"]
    buffers: dict[int, list[tuple]] = {}
    for row in rows_of(homes[0], "answers"):
        if row["batch_id"] == last and row["object_key"] is not None:
            one = row["value"], -row["ts"].timestamp(), -row["object_key"]
            buffers.setdefault(row["subscription_key"], []).append(one)
    best = {
        (key, -number): value
        for key, entries in buffers.items()
        for value, _, number in sorted(entries)[: twin.insertions[key]["k"]]
    }
    assert best == {pair: value for pair, (_, value) in twin.answers(twin.batches[-1]).items()}


def test_old_changes_go_and_the_answers_stay(
    homes: tuple[Home, Home], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    shutil.copytree(homes[1].path, home.path)
    before, answers = exported(home, "changes")[0], exported(home, "answers")[0]
    batches = rows_of(home, "batches")
    middle = sorted(batches, key=lambda row: row["batch_id"])[len(batches) // 2]
    now = middle["started_at"] + dt.timedelta(days=1)
    set_clock(monkeypatch, now)
    expired = home.run("maintain", "--keep", "answer_log=1d")["rows_expired"]
    changes, document = exported(home, "changes")
    first = document["complete_from"]
    assert first == middle["batch_id"]
    assert [r for r in changes if r["batch_id"] >= first] == [r for r in before if r["batch_id"] >= first]
    old = [row for row in changes if row["batch_id"] < first]
    assert {row["change"] for row in old} == {"entered"}
    assert all(row in before for row in old) and len(changes) < len(before)
    assert expired == {"answer_log": len(before) - len(changes)}
    assert exported(home, "answers")[0] == answers
    assert home.run("maintain", "--keep", "answer_log=1d")["rows_expired"] == {}
    set_clock(monkeypatch, utc_now() + dt.timedelta(days=2))
    home.run("maintain", "--keep", "answer_log=1d")
    left, document = exported(home, "changes")
    assert len(left) == len(answers) == len(exported(home, "answers")[0])
    assert document["complete_from"] == max(row["batch_id"] for row in batches) + 1
    assert exported(home, "answers")[0] == answers
