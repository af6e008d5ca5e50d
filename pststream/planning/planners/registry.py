"""Look up a planner by its name, run it on a sample, and validate the plan that it returns."""

from dataclasses import replace
from importlib import import_module

import numpy as np

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.base.optional_packages import MissingExtra, needs_extra
from pststream.base.progress import Progress, no_progress
from pststream.planning.load_model import CostModel
from pststream.planning.planners.by_subscription import Placement, describe_sample, place
from pststream.planning.planners.contract import Options, Planner
from pststream.plans.plan import PartitionPlan
from pststream.plans.plan_rows import planner_of, validate
from pststream.plans.planner_sample import SampleCounts, WorkloadSample


def load_planner(name: str) -> Planner:
    """Import the module of a planner (`names.PLANNERS`) and return its function `plan`.

    Raises UsageError for an unknown planner, MissingExtra for `hypergraph` if its partitioner is not installed.
    """
    if name not in names.PLANNERS:
        raise UsageError(f"planner {name!r} is unknown", "one of: " + ", ".join(names.PLANNERS))
    with needs_extra("hypergraph"):
        planner: Planner = import_module(names.PLANNERS[name]).plan
    return planner


def installed_planners(progress: Progress = no_progress) -> list[str]:
    """Return the planners whose packages are installed, in the order of names.PLANNERS; report the others."""
    usable = []
    for name in names.PLANNERS:
        try:
            load_planner(name)
        except MissingExtra as error:
            progress(f"planner {name} is left out: {error.args[0]}; {error.hint}")
        else:
            usable.append(name)
    return usable


def check_planner(name: str, progress: Progress) -> None:
    """Raise what `load_planner` raises, before any work; of `auto`, report the planners that it leaves out."""
    load_planner(name)
    if name == names.AUTO:
        installed_planners(progress)


def shares_by_subscription(name: str) -> bool:
    """Whether the plans of a planner share by subscription: its module is a `Placement`, too. Not of `auto`."""
    return hasattr(import_module(names.PLANNERS[name]), "cost_of_new")


def load_placement(plan: PartitionPlan) -> Placement:
    """Import the module of the planner of a plan that shares by subscription, of the one that `auto` chose for it."""
    placement: Placement = import_module(names.PLANNERS[planner_of(plan.planner, plan.options)])
    return placement


def place_sample(sample: WorkloadSample, plan: PartitionPlan, counts: SampleCounts) -> WorkloadSample:
    """Return the sample with the unit of each piece under a plan that shares by subscription; all count as present."""
    subscriptions, place_of = describe_sample(sample, plan)
    present_to = int(subscriptions.keys[-1]) if subscriptions.count else -1
    placed = place(load_placement(plan), plan, counts, subscriptions, present_to, np.zeros(plan.units))
    return replace(sample, piece_unit=placed.units[place_of])


def make_plan(
    name: str, sample: WorkloadSample, workers: int, cost: CostModel, options: Options | None = None
) -> PartitionPlan:
    """Return the plan that the planner `name` makes of a sample.

    Raises UsageError for an unknown planner, for an option that the planner does not have, or for less than one worker,
    MissingExtra as `load_planner`.
    """
    planner = load_planner(name)
    if workers < 1:
        raise UsageError(f"a plan needs at least 1 worker, not {workers}")
    plan = planner(sample, workers, cost, options or {})
    validate(plan)
    return plan
