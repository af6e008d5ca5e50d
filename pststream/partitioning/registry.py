"""Look up a planner by its name, run it on a sample, and validate the plan that it returns."""

from importlib import import_module

from pststream import names
from pststream.cost.load_model import CostModel
from pststream.domain.plan import PartitionPlan
from pststream.domain.plan_rows import validate
from pststream.domain.planner_sample import WorkloadSample
from pststream.errors import UsageError
from pststream.partitioning.planner_contract import Options, Planner


def load_planner(name: str) -> Planner:
    """Import the module of a planner (`names.PLANNERS`) and return its function `plan`.

    Raises UsageError for an unknown planner.
    """
    if name not in names.PLANNERS:
        raise UsageError(f"planner {name!r} is unknown", "one of: " + ", ".join(names.PLANNERS))
    planner: Planner = import_module(names.PLANNERS[name]).plan
    return planner


def make_plan(
    name: str, sample: WorkloadSample, workers: int, cost: CostModel, options: Options | None = None
) -> PartitionPlan:
    """Return the plan that the planner `name` makes of a sample.

    Raises UsageError for an unknown planner, for an option that the planner does not have, or for less than one worker.
    """
    planner = load_planner(name)
    if workers < 1:
        raise UsageError(f"a plan needs at least 1 worker, not {workers}")
    plan = planner(sample, workers, cost, options or {})
    validate(plan)
    return plan
