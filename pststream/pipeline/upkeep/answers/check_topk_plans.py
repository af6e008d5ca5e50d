"""Count the plans of `topk` that are missing in `topk_plans`, or whose row does not fit together."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from pststream import names
from pststream.delta_tables import read_table
from pststream.domain.topk_plan_rows import topk_plan_from_row
from pststream.errors import PstError
from pststream.partitioning.dskype.planners import plan_levels
from pststream.planner_options import read_planner_options
from pststream.state.home import Home
from pststream.state.plans import read_topk_row


def count_topk_plan_faults(home: Home) -> dict[str, int]:
    """Return the figures `topk_plans_off` and `topk_plans_broken` of the check `ledger`.

    Rows that no plan version names do not count: a killed planner has left them. One plan is read at a time.
    """
    named = read_table(home.table(names.PLANS), ["topk_version"]).column(0).drop_null().to_pylist()
    stored = Counter(read_table(home.table(names.TOPK_PLANS), ["plan_version"]).column(0).to_pylist())
    known = set(named) & set(stored)
    return {
        "topk_plans_off": sum(stored[version] != 1 for version in named),
        "topk_plans_broken": sum(not is_whole(read_topk_row(home, version)) for version in known),
    }


def is_whole(row: Mapping[str, Any]) -> bool:
    """Whether a row of `topk_plans` is a valid plan of the levels that its planner makes, with its figures."""
    try:
        plan = topk_plan_from_row(row)
        options = read_planner_options(json.loads(row["options"])["planner_options"])
        levels = plan_levels(plan.planner, plan.units, options)
    except (ValueError, KeyError, TypeError, PstError):
        return False
    figures = np.array([row["replication"], row["copies"], row["seconds"], *row["unit_loads"]])
    counted = len(row["unit_loads"]) == plan.units and bool((figures >= 0).all())
    return counted and levels == (plan.way, plan.first, plan.second, plan.is_prefix)
