"""With an idle worker the imbalance is null in every JSON document that shows one, and the table has its greatest."""

import json
from pathlib import Path

import pytest

from pststream.base import names
from pststream.plans.imbalance import MAX_IMBALANCE
from tests.commands import Home, new_home, run_here
from tests.kill_and_rerun import table_of

INFINITE = "imbalance infinite (idle worker)"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home in which one of two workers has no load, as all objects and the subscription are at one point."""
    folder = tmp_path_factory.mktemp("idle")
    home = new_home(folder / "home", engine="local", planner="grid", workers=2)
    same = {"ts": "2026-01-01", "lon": 5, "lat": 5, "text": "tea"}
    write(folder / "things.jsonl", [{"object_id": str(n), **same} for n in range(9)])
    asked = {
        "op": "insert",
        "subscription_id": "s",
        "keywords": "tea",
        "bbox": [5, 5, 5, 5],
        "created_at": "2026-01-01",
    }
    write(folder / "asked.jsonl", [asked])
    home.ingest("objects", [folder / "things.jsonl"])
    home.ingest("requests", [folder / "asked.jsonl"])
    home.match()
    return home


def write(file: Path, rows: list[dict[str, object]]) -> None:
    file.write_text("\n".join(map(json.dumps, rows)))


def text_of(home: Home, *arguments: str) -> str:
    result = run_here(*arguments, "--home", home.path)
    assert result.code == 0
    return result.out


def test_plans(home: Home) -> None:
    made = home.run("plan", "--dry-run")
    assert made["load_min"] == 0.0 and made["imbalance"] is None
    assert INFINITE in text_of(home, "plan", "--dry-run")
    assert home.run("plans", "list")["plans"][0]["imbalance"] is None
    assert home.run("plans", "show")["imbalance"] is None and INFINITE in text_of(home, "plans", "show")
    status = home.run("status")
    assert status["plan"]["imbalance"] is status["balance"]["imbalance"] is None
    assert f"predicted {INFINITE}" in text_of(home, "status")
    stored = table_of(home, names.PLANS).to_pyarrow_table().to_pylist()
    assert [row["imbalance"] for row in stored] == [MAX_IMBALANCE]


def test_a_plan_without_an_idle_worker(home: Home) -> None:
    made = home.run("plan", "--dry-run", "--workers", "1")
    assert made["imbalance"] == 1.0


def test_compared_plans(home: Home) -> None:
    (figures,) = home.run("plans", "compare", "--planners", "grid")["plans"]
    assert figures["imbalance"] is figures["model_imbalance"] is None
    assert text_of(home, "plans", "compare", "--planners", "grid").count("infinite (idle worker)") == 2


def test_a_replay(home: Home) -> None:
    document = home.run("replay", "--last", "1")
    assert document["was"]["imbalance"] is document["would_be"]["imbalance"] is None
    lines = [line.split("  ") for line in text_of(home, "replay", "--last", "1").splitlines()]
    (cells,) = (cells for cells in ([cell.strip() for cell in line if cell] for line in lines) if "imbalance" in cells)
    assert cells == ["imbalance", "infinite (idle worker)", "infinite (idle worker)", "="]
