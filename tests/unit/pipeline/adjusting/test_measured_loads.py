"""Measured loads of workers, the model scaled to them, shared rounds of trials, and documents with an idle worker."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from pststream.base import names
from pststream.pipeline.replan.balance import balance, scale_to_measured
from pststream.pipeline.replan.compare_planners import share_rounds
from pststream.pipeline.replan.measured_loads import MeasuredLoads, check_balance, measure_loads
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners.registry import make_plan
from pststream.plans.imbalance import MAX_IMBALANCE
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.tables.ledgers import log_key
from tests.commands import Home as CommandHome
from tests.commands import new_home, run_here
from tests.kill_and_rerun import table_of
from tests.paper_samples import paper_sample
from tests.unit.reports.commands.homes import add_batch, add_file, add_plan, deletion, halves, insertion, thing


def test_the_last_batches(hand_home: Home) -> None:
    add_plan(hand_home, halves())
    assert measure_loads(hand_home, 1, 3).batches == 0
    first = add_file(hand_home, "requests", [insertion(1, "a"), insertion(2, "b")])
    add_file(hand_home, "objects", [thing(1, "o1", 1)])
    add_batch(hand_home, cpu_seconds=(1.0, 3.0))
    add_file(hand_home, "requests", [insertion(1, "c", 5), deletion(2, "a", 6, log_key(first, 1))])
    seen = add_file(hand_home, "objects", [thing(1, "o2", 7)])
    add_batch(hand_home, cpu_seconds=(2.0, 2.0))

    last = measure_loads(hand_home, 1, 1)
    assert last.batches == 1
    assert last.imbalance == pytest.approx(1.0) and last.first_key < log_key(seen, 1)
    both = measure_loads(hand_home, 1, 2)
    assert both.batches == 2
    assert both.imbalance == pytest.approx(5 / 3)
    assert not both.violates(1.1), "the later half is even"


def loads_of(*batches: tuple[float, float], tuples: list[int] | None = None) -> MeasuredLoads:
    return MeasuredLoads(np.array(batches), np.array(tuples or [1] * len(batches)), -1)


def test_work_that_happens_once_is_not_typical() -> None:
    measured = loads_of((1.0, 2.0), (9.0, 2.0), (1.5, 2.5))
    assert measured.typical == pytest.approx([6.75, 11.25])
    assert measured.imbalance == pytest.approx(11.5 / 6.5)


def test_batches_of_requests_alone_do_not_count() -> None:
    measured = loads_of(*[(0.0, 0.0)] * 5, (6.0, 2.0), (3.0, 1.0))
    assert measured.typical == pytest.approx([9.0, 3.0])
    assert loads_of((0.0, 0.0)).typical.tolist() == [0.0, 0.0]


def test_a_worker_that_is_busy_in_the_large_batches_is_the_busy_one() -> None:
    batches = [(10.0, 1.0), (0.0, 1.0), (0.0, 1.0), (10.0, 1.0), (0.0, 1.0)]
    typical = loads_of(*batches, tuples=[100, 5, 5, 100, 5]).typical
    assert typical[0] > 5 * typical[1] and typical.sum() == pytest.approx(25.0)


def test_an_idle_worker_has_no_number(hand_home: Home) -> None:
    add_plan(hand_home, halves())
    add_file(hand_home, "objects", [thing(1, "o1", 1)])
    add_batch(hand_home, cpu_seconds=(3.0, 0.0))
    assert check_balance(hand_home, Settings())["measured_imbalance"] is None
    document = balance(hand_home, Settings(), "local", dry_run=True)
    assert document["measured_imbalance"] is None
    assert document["reason"] == "1 batch measured, 2 are needed to judge the balance"
    add_file(hand_home, "objects", [thing(1, "o2", 2)])
    add_batch(hand_home, cpu_seconds=(3.0, 1.5))
    assert check_balance(hand_home, Settings())["measured_imbalance"] == 4.0


COST = CostModel(2e-12, 2e-6, 2e-6, 5e-7, 2e-8)


def test_the_model_is_scaled_to_the_seconds() -> None:
    sample = paper_sample("q1", 2000, 1000)
    plan = make_plan("grid", sample, 4, COST)
    seconds, older = np.array([3.0, 1.0, 1.0, 2.0]), np.array([0.0, 1e-3, 0.0, 0.0])
    cost, rest = scale_to_measured(sample, plan, COST, older, seconds)
    modelled = compute_worker_loads(sample, plan, cost).load
    assert np.allclose(modelled + rest, seconds)
    before = compute_worker_loads(sample, plan, COST).load
    assert np.allclose(modelled, before * 7.0 / (before.sum() + 1e-3))
    assert cost.object / COST.object == cost.posting / COST.posting


@pytest.mark.parametrize("order", itertools.permutations(range(4)))
def test_rounds_of_the_same_plan_count_for_each_of_its_trials(order: tuple[int, ...]) -> None:
    made = ["grid", "kd_tree", "grid", "grid"]
    seconds = [[1.0, 2.0], [9.0], [3.0], []]
    rounds = [[np.array([one]) for one in of_trial] for of_trial in seconds]
    share_rounds((made[trial], rounds[trial]) for trial in order)
    shared = [sorted(float(one[0]) for one in of_trial) for of_trial in rounds]
    assert shared == [[1.0, 2.0, 3.0], [9.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]


INFINITE = "imbalance infinite (idle worker)"


@pytest.fixture(scope="module")
def idle_home(tmp_path_factory: pytest.TempPathFactory) -> CommandHome:
    """A home in which one of two workers has no load, as all objects and the subscription are at one point."""
    folder = tmp_path_factory.mktemp("idle")
    idle_home = new_home(folder / "home", engine="local", planner="grid", workers=2)
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
    idle_home.ingest("objects", [folder / "things.jsonl"])
    idle_home.ingest("requests", [folder / "asked.jsonl"])
    idle_home.match()
    return idle_home


def write(file: Path, rows: list[dict[str, object]]) -> None:
    file.write_text("\n".join(map(json.dumps, rows)))


def text_of(idle_home: CommandHome, *arguments: str) -> str:
    result = run_here(*arguments, "--home", idle_home.path)
    assert result.code == 0
    return result.out


def test_plans(idle_home: CommandHome) -> None:
    made = idle_home.run("plan", "--dry-run")
    assert made["load_min"] == 0.0 and made["imbalance"] is None
    assert INFINITE in text_of(idle_home, "plan", "--dry-run")
    assert idle_home.run("plans", "list")["plans"][0]["imbalance"] is None
    assert idle_home.run("plans", "show")["imbalance"] is None and INFINITE in text_of(idle_home, "plans", "show")
    status = idle_home.run("status")
    assert status["plan"]["imbalance"] is status["balance"]["imbalance"] is None
    assert f"predicted {INFINITE}" in text_of(idle_home, "status")
    stored = table_of(idle_home, names.PLANS).to_pyarrow_table().to_pylist()
    assert [row["imbalance"] for row in stored] == [MAX_IMBALANCE]


def test_a_plan_without_an_idle_worker(idle_home: CommandHome) -> None:
    made = idle_home.run("plan", "--dry-run", "--workers", "1")
    assert made["imbalance"] == 1.0


def test_compared_plans(idle_home: CommandHome) -> None:
    (figures,) = idle_home.run("plans", "compare", "--planners", "grid")["plans"]
    assert figures["imbalance"] is figures["model_imbalance"] is None
    assert text_of(idle_home, "plans", "compare", "--planners", "grid").count("infinite (idle worker)") == 2


def test_a_replay(idle_home: CommandHome) -> None:
    document = idle_home.run("replay", "--last", "1")
    assert document["was"]["imbalance"] is document["would_be"]["imbalance"] is None
    lines = [line.split("  ") for line in text_of(idle_home, "replay", "--last", "1").splitlines()]
    (cells,) = (cells for cells in ([cell.strip() for cell in line if cell] for line in lines) if "imbalance" in cells)
    assert cells == ["imbalance", "infinite (idle worker)", "infinite (idle worker)", "="]
