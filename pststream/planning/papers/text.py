"""Text planner: divide the objects by text, wherever they are, until there are `theta` parts for the workers."""

from pststream.planning.load_model import CostModel
from pststream.planning.papers.qt_tree import make_tree_plan
from pststream.planning.planners.contract import Options
from pststream.plans.plan import PartitionPlan
from pststream.plans.planner_sample import WorkloadSample


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan whose units are the leaves of a QT-tree that is split by text alone.

    options  those of `qt_tree`

    Source: the baseline Text of SSTD, section 7.1. Departures are those of `qt_tree`. If the sample cannot be divided
    by text, one worker has everything.
    """
    return make_tree_plan("text", sample, workers, options, by_space=False)
