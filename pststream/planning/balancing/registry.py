"""Look up a balancer by the name of its method and run it."""

from importlib import import_module

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.planning.balancing.balancing_task import Balancer, BalancingTask
from pststream.planning.balancing.local_adjustment import Adjustment


def adjust(task: BalancingTask) -> Adjustment:
    """Return the adjustment by the task's method; raises UsageError for an unknown one."""
    if task.method not in names.BALANCERS:
        raise UsageError(f"method {task.method!r} is unknown", "one of: " + ", ".join(names.BALANCERS))
    balancer: Balancer = import_module(names.BALANCERS[task.method]).adjust
    return balancer(task)
