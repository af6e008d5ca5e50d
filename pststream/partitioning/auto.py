"""Planner `auto`: judge every planner on a half of the sample that it has not seen, and take the plan of the best."""

from collections.abc import Iterable
from dataclasses import replace

from pststream import names
from pststream.cost.load_model import CostModel, compute_worker_loads
from pststream.cost.sample_run import run_sample
from pststream.domain.plan import PartitionPlan, SubscriptionPlan
from pststream.domain.planner_sample import WorkloadSample
from pststream.domain.sample_counts import count_sample
from pststream.partitioning.planner_contract import Options, read_integer_options
from pststream.partitioning.planning_raster import RASTER_OPTIONS
from pststream.partitioning.registry import installed_planners, make_plan, place_sample, shares_by_subscription
from pststream.samples.sample_halves import split_sample


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return the plan of the planner whose most loaded worker is least loaded, by the calibrated model.

    Each planner plans for one half of the sample and is judged by a run of the other half, and the other way round; its
    load is the mean of the two. The best one then plans for the whole sample. On the objects and subscriptions that it
    was made from, a plan of many small decisions looks better than it is for those that it has not seen. The slowest
    worker decides how long a batch takes, so its load counts and not the total. Among equals, and all are equal without
    a sample, `names.FIRST_PLANNER`, then the planner that is listed first. Planners of packages that are not installed
    are left out.

    options  columns, rows: of the raster of every plan; without them, each planner has its own

    The options of the plan are those of the chosen one, and "choice": {"planner": its name, "greatest_loads": {planner:
    seconds of its most loaded worker}}.

    Source: none; the papers compare planners on workloads that are known in advance.
    """
    return _choose(_others(), sample, workers, cost, options)


def plan_by_space_or_terms(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan as `plan` does, but of no planner that shares by subscription: `balance` makes no such plan."""
    planners = [name for name in _others() if not shares_by_subscription(name)]
    return _choose(planners, sample, workers, cost, options)


def _others() -> list[str]:
    return [name for name in installed_planners() if name != names.AUTO]


def _choose(
    planners: Iterable[str], sample: WorkloadSample, workers: int, cost: CostModel, options: Options
) -> PartitionPlan:
    """Return the plan of the best of some planners, with the choice among its options."""
    read_integer_options(names.AUTO, options, RASTER_OPTIONS)
    one, other = split_sample(sample)
    loads = {}
    for name in planners:
        halves = ((one, other), (other, one))
        judged = [_judge(make_plan(name, seen, workers, cost, options), seen, unseen, cost) for seen, unseen in halves]
        loads[name] = sum(judged) / 2
    best = min(loads, key=lambda name: (loads[name], name != names.FIRST_PLANNER))
    made = make_plan(best, sample, workers, cost, options)
    choice = {"planner": best, "greatest_loads": loads}
    return replace(made, planner=names.AUTO, options={**made.options, "choice": choice})


def _judge(plan: PartitionPlan, seen: WorkloadSample, unseen: WorkloadSample, cost: CostModel) -> float:
    """Return the greatest load of a worker for the half of a sample from which the plan was not made."""
    if isinstance(plan, SubscriptionPlan):
        return compute_worker_loads(place_sample(unseen, plan, count_sample(seen, plan.grid)), plan, cost).max
    return float(run_sample(unseen, plan).loads(unseen, cost).max())
