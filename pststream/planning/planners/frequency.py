"""Frequency planner: partition by text alone; assign terms, heaviest first, each to the worker least loaded with it."""

import numpy as np

from pststream.kernels.planning.assign_terms import assign_by_frequency
from pststream.planning.live_terms import collect_term_use
from pststream.planning.load_model import CostModel
from pststream.planning.planners.contract import Options, options_and_raster
from pststream.plans.plan import PartitionPlan, text_plan
from pststream.plans.planner_sample import WorkloadSample


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan of one leaf, partitioned by text, in which each term goes to the worker least loaded with it.

    Terms are assigned in descending order of load; the load of a term is the load of a worker that has no other term.
    The objects, subscriptions and posting reads of a worker are taken to be the sums over its terms. Terms under which
    the sample posts no subscription are spread by their id.

    options  columns, rows: of the raster

    Source: frequency-based partitioning of PS2Stream, section VI-B, which uses "the frequency values of the terms" and
    says no more. Departure: frequencies in objects and in subscriptions are weighed by Definition 1.
    """
    chosen, grid = options_and_raster("frequency", sample, options)
    use, rates = collect_term_use(sample), cost.rates(sample)
    order = np.argsort(-rates.load(use.objects, use.subscriptions, use.reads), kind="stable")
    seconds = rates.read * use.reads
    term_worker = assign_by_frequency(order, use.objects, use.subscriptions, seconds, workers, rates.row_rates)
    return text_plan("frequency", grid, use.ids, term_worker, workers, chosen)
