"""A replay has the recorded answers, and reports others; a restored backup of a home with answers goes on like it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pststream.base import names
from pststream.reports.commands.comparisons import render_replay
from pststream.state.home import Home as State
from tests.commands import Home
from tests.damage import delete_rows
from tests.replayed import replayed


@pytest.mark.parametrize("last", ["2", "5", "99"])
def test_a_replay_has_the_recorded_answers(home_with_answers: Home, last: str) -> None:
    document = replayed(home_with_answers, "--last", last, "--planner", "hybrid")
    assert document["matches_equal"] and document["answers_equal"] is True


@pytest.mark.parametrize("planner", ["prefix", "keyword_first"])
def test_a_replay_under_a_plan_of_topk_has_the_recorded_answers(
    home_with_answers: Home, tmp_path: Path, planner: str
) -> None:
    page = tmp_path / "page.html"
    document = replayed(home_with_answers, "--last", "5", "--planner", planner, "--page", page)
    assert document["matches_equal"] and document["answers_equal"] is True
    regions, topk = document["plan"], document["topk"]
    assert regions["plan_version"] is None and document["would_be"]["plan_versions"] == []
    assert (topk["planner"], len(topk["unit_loads"])) == (planner, regions["workers"])
    assert 0 < topk["measured_batches"] < 5 and sum(topk["unit_objects"]) > 0 and sum(topk["unit_subscriptions"]) > 0
    assert f"a new plan, topk: {planner}" in render_replay(document)
    assert f"A new plan by {planner}" in page.read_text() and "Unit 0" in page.read_text()


def test_the_kinds_say_which_plan_a_planner_makes(home_with_answers: Home) -> None:
    last = ("--last", "2", "--planner", "hash")
    regions, topk = replayed(home_with_answers, *last, "--kinds", "range,knn"), replayed(home_with_answers, *last)
    assert regions["plan"]["planner"] == "hash" and "topk" not in regions
    assert topk["plan"]["planner"] != "hash" and topk["topk"]["planner"] == "hash"
    for words, why in (
        (("--last", "1", "--planner", "prefix"), "made after the first of the batches"),
        (("--last", "2", "--planner", "prefix", "--kinds", "range,knn"), "'prefix' does not serve range,knn"),
        (("--last", "2", "--kinds", "topk"), "--kinds says which plan --planner makes"),
        (("--last", "2", "--option", "first=1"), "--option is one of --planner"),
        (("--last", "2", "--planner", "spatial_first", "--option", "blocks=1"), "blocks"),
    ):
        assert why in replayed(home_with_answers, *words, code=2)["error"]


def test_recorded_answers_that_differ_are_reported(home_with_answers: Home, tmp_path: Path) -> None:
    shutil.copytree(home_with_answers.path, tmp_path / "home")
    home = Home(tmp_path / "home")
    answered = home.run("answers")["answers"]
    score = next(row["score"] for row in answered if row["score"] is not None)
    delete_rows(State(home.path), names.ANSWER_LOG, f"part = 'change' AND abs(value + {score}) < 1e-6")
    document = replayed(home, "--last", "1", code=1)
    assert document["matches_equal"] and document["answers_equal"] is False


def test_answers_of_rows_that_were_erased_are_not_compared(home_with_answers: Home, tmp_path: Path) -> None:
    shutil.copytree(home_with_answers.path, tmp_path / "home")
    home = Home(tmp_path / "home")
    row = home.run("answers")["answers"][0]
    home.run("erase", "--subscription-id", row["subscription_id"])
    assert replayed(home, "--last", "1")["answers_equal"] is None


def test_a_restored_backup_goes_on(home_with_answers: Home, tmp_path: Path) -> None:
    """Both homes get the same object; the states of the copy are built from its snapshots and its log."""
    shutil.copytree(home_with_answers.path, tmp_path / "home")
    home, copy = Home(tmp_path / "home"), Home(tmp_path / "copy")
    home.run("backup", "--out", copy.path)
    more = tmp_path / "more.jsonl"
    newest = max(row["as_of"] for row in home.run("answers")["answers"])
    more.write_text(json.dumps({"object_id": "new", "ts": newest, "lon": 0.0, "lat": 0.0, "text": "coffee tea"}) + "\n")
    for one in (home, copy):
        one.ingest("objects", [more])
        one.match()
        assert one.run("check")["success"]
    assert exported(home, "answers") == exported(copy, "answers")
    assert exported(home, "changes") == exported(copy, "changes")


def exported(home: Home, what: str) -> list[dict[str, Any]]:
    out = home.path.parent / f"{home.path.name}-{what}.parquet"
    home.run("export", what, "--out", out)
    rows: list[dict[str, Any]] = pq.read_table(out).to_pylist()
    return rows
