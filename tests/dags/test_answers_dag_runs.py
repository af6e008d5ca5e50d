"""DAG runs on a home whose subscriptions have answers: match, term statistics, upkeep, check."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Home
from tests.dags.dag_runs import FinishedRun
from tests.dags.landing_folder import fill_landing

pytestmark = [pytest.mark.airflow, pytest.mark.deep]

POINT = {"point": {"lon": 0.5, "lat": 0.5}, "k": 2}
STANDING = [
    {"subscription_id": "near", "kind": "knn", "keywords": "coffee", **POINT},
    {"subscription_id": "best", "kind": "topk", "keywords": "free coffee", "window": "1h", "alpha": 0.5, **POINT},
    {"subscription_id": "words", "kind": "frequent_terms", "bbox": [0, 0, 1, 1], "k": 2, "window": "1h", "step": "1h"},
]
CREATED = "2026-03-01T00:00:00Z"


def test_all_dags_of_a_home_with_answers(dagbag: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSTSTREAM_WORKERS", "2")
    monkeypatch.setenv("PSTSTREAM_ENGINE", "local")
    landing, home = fill_landing(tmp_path / "landing"), Home(tmp_path / "home")
    rows = [{"op": "insert", "created_at": CREATED} | row for row in STANDING]
    (landing / "requests" / "standing.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    where = {"home": str(home.path)}
    form = where | {"landing": str(landing)}
    assert ran(dagbag, "micro_batch", form).xcom("match")["batches"] == 1
    assert [row[1] for row in answers(home, "near")] == ["o5", "o1"]
    ran(dagbag, "term_statistics", where)
    ran(dagbag, "maintain", where)
    more = "object_id,ts,lon,lat,text\no6,2026-03-01T13:00:00Z,0.5,0.51,coffee and cake\n"
    (landing / "objects" / "more.csv").write_text(more)
    assert ran(dagbag, "micro_batch", form).xcom("match")["batches"] == 1
    assert [row[1] for row in answers(home, "near")] == ["o5", "o1"]
    assert [row[1] for row in answers(home, "words")] == ["coffee", "and"]
    assert len(answers(home, "best")) == 2
    checked = ran(dagbag, "check_tables", where).xcom("check")
    assert checked["success"] and "answers" in [one["check"] for one in checked["checks"]]


def ran(dagbag: Any, name: str, form: dict[str, str]) -> FinishedRun:
    run = FinishedRun(dagbag.dags[f"pststream_{name}"], form)
    assert run.state == "success", name
    return run


def answers(home: Home, subscription_id: str) -> list[tuple[int, str]]:
    """Rank, and object or word, of each row of an answer."""
    rows = home.run("answers", subscription_id)["answers"]
    return [(row["rank"], row["object_id"] or row["term"]) for row in rows]
