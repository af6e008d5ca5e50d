"""Define what a balancer gets, a plan and the loads to level, and the contract of balancers."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pststream.planning.balancing.local_adjustment import Adjustment
from pststream.planning.load_model import CostModel
from pststream.plans.plan import PartitionPlan
from pststream.plans.planner_sample import WorkloadSample


@dataclass(frozen=True)
class BalancingTask:
    """A plan whose workers are out of balance.

    method            one of `names.BALANCERS`
    cost              constants for the period of the sample, scaled to measured seconds
    target            greatest load over the least that counts as balanced, at least 1
    fixed_load        float64[workers], seconds: what the measured load is above the modelled load of `plan`
    retiring_load     float64[workers], seconds: the part of the fixed load that belongs to a plan that is retiring
    transfer_seconds  to write one subscription into the index of another worker
    seed              of the method `ra`
    """

    method: str
    sample: WorkloadSample
    plan: PartitionPlan
    cost: CostModel
    target: float
    fixed_load: np.ndarray
    retiring_load: np.ndarray
    transfer_seconds: float
    seed: int = 0


class Balancer(Protocol):
    """A pure function from a task to the moves that balance the workers, none if no move helps.

    The adjusted plan serves each (raster cell, term) by one worker, as every plan does, so no move changes a match.
    """

    def __call__(self, task: BalancingTask) -> Adjustment:
        """Return the moves, and the plan and its loads after them."""
        ...
