"""Metric planner: partition by text alone; assign each term by worker load and the load that the term would add."""

import numpy as np

from pststream.kernels.planning.assign_terms import TermRows, assign_by_metric
from pststream.planning.live_terms import TermUse, collect_term_use
from pststream.planning.load_model import CostModel, LoadRates
from pststream.planning.planners.contract import Options, options_and_raster
from pststream.plans.plan import PartitionPlan, text_plan
from pststream.plans.planner_sample import WorkloadSample

AFFINITY = 64.0
"""Weight of the load that a term adds to a worker, against the load of the worker; higher values gain little."""


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan of one leaf, partitioned by text, in which each term goes to the worker with the least metric.

    The metric is the load of the worker with the term plus AFFINITY times the load that the term adds to it. Terms are
    assigned in descending order of the objects that have them. An object or subscription that a worker has for an
    earlier term costs it nothing more, so terms that occur together attract each other, and the loads are exactly those
    of Definition 1. Terms under which the sample posts no subscription are spread by their id.

    options  columns, rows: of the raster

    Source: metric-based partitioning of PS2Stream, section VI-B, which names S3-TM for it: Basik, Gedik,
    Ferhatosmanoglu, Kalender, "S3-TM: scalable streaming short text matching", VLDB Journal 24(6), 2015, there SALB, a
    greedy placement over the bipartite graph of words and posts for small spread and even load. Departures: the metric
    is ours (AFFINITY), as PS2Stream does not give it; its load is Definition 1's, so subscriptions count as well; words
    are not replicated against skew, as each (cell, term) has one owner here.
    """
    chosen, grid = options_and_raster("metric", sample, options)
    use = collect_term_use(sample)
    unsettled = np.full(len(use.ids), -1, dtype=np.int32)
    term_worker = assign_terms(use, unsettled, workers, cost.rates(sample))
    return text_plan("metric", grid, use.ids, term_worker, workers, chosen)


def assign_terms(use: TermUse, given: np.ndarray, workers: int, rates: LoadRates) -> np.ndarray:
    """Return the worker of each term (int32[terms]): its entry in `given` (int32[terms]), or by the metric where -1."""
    order = np.lexsort((-use.objects, given < 0))
    objects = TermRows(offsets=use.object_offsets, terms=use.object_terms)
    subscriptions = TermRows(offsets=use.subscription_offsets, terms=use.subscription_terms)
    seconds = rates.read * use.reads
    return np.asarray(
        assign_by_metric(order, given, objects, subscriptions, seconds, workers, rates.row_rates, AFFINITY)
    )
