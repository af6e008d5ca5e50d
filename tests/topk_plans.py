"""Make plans of `topk` of a small random world, and put them in force in a home."""

import random
from typing import Any

from pststream.base import names
from pststream.base.utc_times import utc_now
from pststream.pipeline.answers.unit_candidates import DrawnTopk
from pststream.pipeline.replan.plan_topk import put_in_force
from pststream.planning.papers.topk_planners import make_topk_plan
from pststream.planning.papers.topk_sample import count_loads
from pststream.plans.plan_rows import topk_plan_row
from pststream.state import ledger_tables
from pststream.state.home import Home
from tests.unit.answers.scored_index_worlds import as_messages, as_subscriptions, random_world


def topk_row(planner: str, units: int, version: int = 2) -> dict[str, Any]:
    """Return the row of `topk_plans` of a plan."""
    made, sent, weights = random_world(random.Random(5), 12, 40)
    sample = DrawnTopk(as_subscriptions(made, weights), as_messages(sent, weights), 1.0).sample
    plan = make_topk_plan(planner, sample, units)
    loads = count_loads(sample, plan)
    return topk_plan_row(plan) | {
        "plan_version": version, "replication": loads.replication, "copies": loads.copies, "seconds": 0.5,
        "unit_loads": loads.load.tolist(), "options": '{"planner_options": ""}', "created_at": utc_now(),
    }  # fmt: skip


def add_topk_plan(home: Home, row: dict[str, Any]) -> None:
    """Put the plan of a row in force; the home has the plan version before it."""
    ledger_tables.append(home, names.TOPK_PLANS, [row])
    put_in_force(home, row["plan_version"], row["plan_version"])


def add_topk_loads(home: Home, batch_id: int, version: int, loads: list[tuple[int, int, float]]) -> None:
    """Add what a batch has measured of each unit: objects, subscriptions, CPU seconds."""
    same = {"batch_id": batch_id, "plan_version": version, "worker": names.UNIT_OF_TOPK, "candidates": 0, "matches": 0}
    rows = [
        same | {"unit": unit, "objects": objects, "subscriptions": stored, "cpu_seconds": seconds}
        for unit, (objects, stored, seconds) in enumerate(loads)
    ]
    ledger_tables.append(home, names.UNIT_LOADS, rows)
