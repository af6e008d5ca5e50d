"""QT-tree planner: split the node with the greatest workload by space or by text, whichever leaves less workload, and
divide the leaves among the workers.
"""

from pststream.planning.load_model import CostModel
from pststream.planning.papers.karmarkar_karp import divide_leaves
from pststream.planning.papers.qt_tree_growth import GrowingTree
from pststream.planning.papers.query_statistics import collect_query_statistics
from pststream.planning.planners.contract import RASTER_OPTIONS, Options, options_and_raster
from pststream.plans.plan import PartitionPlan, tree_plan
from pststream.plans.planner_sample import WorkloadSample

DEFAULTS = {**RASTER_OPTIONS, "theta": 64}


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan with a unit for each leaf of the QT-tree; `divide_leaves` assigns them to workers.

    options  columns, rows: of the raster; theta: number of leaves from which on none is split

    Source: SSTD, section 4.1.2. Departures are those of `GrowingTree` and of the cost model; its constants are not
    used. Keyword lists and counts do not change any more once the plan is made, as those of the paper's routers do.
    """
    return make_tree_plan("qt_tree", sample, workers, options, by_space=True)


def make_tree_plan(
    planner: str, sample: WorkloadSample, workers: int, options: Options, by_space: bool
) -> PartitionPlan:
    """Return the plan of a tree that is split by text, and by space too if that is allowed."""
    chosen, grid = options_and_raster(planner, sample, options, DEFAULTS)
    tree = GrowingTree(collect_query_statistics(sample, grid))
    tree.grow(chosen["theta"], by_space=by_space)
    leaves = [tree.nodes[number] for number in tree.leaves]
    unit_worker = divide_leaves([leaf.workload for leaf in leaves], [leaf.rectangle for leaf in leaves], workers)
    return tree_plan(planner, grid, tree.plan_nodes(), unit_worker, workers, chosen)
