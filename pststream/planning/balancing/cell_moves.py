"""PS2Stream's balancers GR, DP, SI and RA: move cells and terms from the most to the least loaded worker."""

from pststream.planning.balancing.balancing_task import BalancingTask
from pststream.planning.balancing.local_adjustment import Adjustment, adjust_locally
from pststream.planning.balancing.unit_moves import move_units
from pststream.plans.plan import ObjectPlan


def adjust(task: BalancingTask) -> Adjustment:
    """Return the moves of `local_adjustment.adjust_locally`; of a plan that shares by object, those of `move_units`."""
    if isinstance(task.plan, ObjectPlan):
        return move_units(task)
    return adjust_locally(task.sample, task.plan, task.cost, task.method, task.target, task.seed, task.fixed_load)
