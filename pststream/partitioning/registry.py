"""The planners by name."""

from pststream.cost.load_model import CostModel
from pststream.domain.plan import PartitionPlan
from pststream.domain.plan_rows import validate
from pststream.domain.planner_sample import WorkloadSample
from pststream.errors import UsageError
from pststream.partitioning import frequency, grid, hybrid, hypergraph, kd_tree, metric, r_tree
from pststream.partitioning.contract import Options, Planner

PLANNERS: dict[str, Planner] = {
    "hybrid": hybrid.plan,
    "grid": grid.plan,
    "kd_tree": kd_tree.plan,
    "r_tree": r_tree.plan,
    "frequency": frequency.plan,
    "hypergraph": hypergraph.plan,
    "metric": metric.plan,
}


def make_plan(
    name: str, sample: WorkloadSample, workers: int, cost: CostModel, options: Options | None = None
) -> PartitionPlan:
    """The plan that the planner `name` makes of a sample.

    Raises UsageError for an unknown planner, an option that it does not take, or less than one worker.
    """
    if name not in PLANNERS:
        raise UsageError(f"planner {name!r} is unknown", "one of: " + ", ".join(PLANNERS))
    if workers < 1:
        raise UsageError(f"a plan needs at least 1 worker, not {workers}")
    plan = PLANNERS[name](sample, workers, cost, options or {})
    validate(plan)
    return plan
