"""Text planner: divide the objects by text, wherever they are, until there are `theta` parts for the workers."""

from pststream.cost.load_model import CostModel
from pststream.domain.plan import PartitionPlan
from pststream.domain.planner_sample import WorkloadSample
from pststream.partitioning.planner_contract import Options
from pststream.partitioning.sstd.qt_tree import make_tree_plan


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan whose units are the leaves of a QT-tree that is split by text alone.

    options  those of `qt_tree`

    Source: the baseline Text of SSTD, section 7.1. Departures are those of `qt_tree`. If the sample cannot be divided
    by text, one worker has everything.
    """
    return make_tree_plan("text", sample, workers, options, by_space=False)
