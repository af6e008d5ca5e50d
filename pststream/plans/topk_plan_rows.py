"""Convert a plan of `topk` subscriptions to columns of the table `topk_plans` and back, and validate its arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pststream.base.sorted_keys import distinct_values
from pststream.plans.topk_plan import SPACE_FIRST, WORDS_FIRST, TopkPlan

_SCALARS, _ARRAYS = ("planner", "way", "first", "second", "is_prefix"), ("space_cuts", "words", "word_cuts")

COLUMNS = (*_SCALARS, *_ARRAYS)
"""The columns of `topk_plans` that make a plan."""


def topk_plan_row(plan: TopkPlan) -> dict[str, Any]:
    """Return the columns of `topk_plans` that make the plan; raises ValueError if it is not valid."""
    validate(plan)
    arrays = {name: getattr(plan, name).ravel().tolist() for name in _ARRAYS}
    return {name: getattr(plan, name) for name in _SCALARS} | arrays


def topk_plan_from_row(row: Mapping[str, Any]) -> TopkPlan:
    """Make the plan of a row of `topk_plans`; raises ValueError if it does not make a valid plan."""
    trees, tables = (1, row["first"]) if row["way"] == SPACE_FIRST else (row["first"], 1)
    plan = TopkPlan(
        **{name: row[name] for name in _SCALARS},
        space_cuts=np.array(row["space_cuts"], np.float64).reshape(trees, -1),
        words=np.array(row["words"], np.int64),
        word_cuts=np.array(row["word_cuts"], np.int64).reshape(tables, -1),
    )
    validate(plan)
    return plan


def validate(plan: TopkPlan) -> None:
    """Raise ValueError with the broken rule unless each pair of a place and a word has exactly one unit.

    A kd-tree divides the whole space, whatever its cuts are; they are longitudes and latitudes all the same.
    """
    _require(plan.way in (SPACE_FIRST, WORDS_FIRST), f"the first level is {SPACE_FIRST} or {WORDS_FIRST}")
    _require(plan.first >= 1 and plan.second >= 1, "each level has at least one part")
    first, second = plan.first, plan.second
    trees, leaves, tables, runs = (1, first, first, second) if plan.way == SPACE_FIRST else (first, second, 1, first)
    _require(plan.space_cuts.shape == (trees, leaves - 1), "each tree has a cut between two leaves")
    _require(plan.word_cuts.shape == (tables, runs - 1), "each table has a cut between two runs")
    _require(bool((np.abs(plan.space_cuts) <= 180).all()), "cuts of the space are degrees")
    _require(len(distinct_values(plan.words)) == len(plan.words), "each word has one place")
    within = np.pad(plan.word_cuts, ((0, 0), (1, 1)), constant_values=((0, 0), (0, len(plan.words))))
    _require(bool((np.diff(within, axis=1) >= 0).all()), "cuts of the words ascend within the words")


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(f"not a plan of topk: {rule}")
