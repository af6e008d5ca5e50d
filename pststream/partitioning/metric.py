"""The metric planner: terms dealt to the workers by what they would add, given the objects that are there already."""

import numpy as np

from pststream.cost.load_model import CostModel, LoadRates
from pststream.domain.plan import PartitionPlan, text_plan
from pststream.domain.planner_sample import WorkloadSample
from pststream.kernels.planning.deal_terms import deal_by_spread
from pststream.partitioning.contract import Options, whole_numbers
from pststream.samples.sample_terms import TermUse, term_use
from pststream.space.plan_raster import COLUMNS, ROWS, bounds_of

DEFAULTS = {"columns": COLUMNS, "rows": ROWS}

AFFINITY = 64.0
"""How much the load that a term adds to a worker weighs against what the worker has already; more gains little."""


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """One leaf, partitioned by text; each term goes to the worker where a metric of load and spread is least.

    Terms come in descending order of the objects that have them. An object or subscription that goes to a worker for an
    earlier term costs it nothing more, so terms that occur together attract each other, and the loads that the metric
    weighs are those of Definition 1 as they will be counted. Terms that the sample posts no subscription under are
    spread by their hash.

    options  columns, rows: of the raster

    Source: metric-based partitioning of PS2Stream, section VI-B, which names S3-TM for it: Basik, Gedik,
    Ferhatosmanoglu, Kalender, "S3-TM: scalable streaming short text matching", VLDB Journal 24(6), 2015, there SALB, a
    greedy placement over the bipartite graph of words and posts for small spread and even load. Departures: the metric
    is ours (AFFINITY), as PS2Stream does not give it; its load is Definition 1's, so subscriptions count as well; words
    are not replicated against skew, as each (cell, term) has one owner here.
    """
    chosen = whole_numbers("metric", options, DEFAULTS)
    grid = bounds_of(sample.lon, sample.lat, sample.boxes, chosen["columns"], chosen["rows"])
    use = term_use(sample)
    unsettled = np.full(len(use.ids), -1, dtype=np.int32)
    term_worker = deal_terms(use, unsettled, workers, cost.rates(sample))
    return text_plan("metric", grid, use.ids, term_worker, workers, dict(chosen))


def deal_terms(use: TermUse, given: np.ndarray, workers: int, rates: LoadRates) -> np.ndarray:
    """The worker of each term, by the metric where `given` (int32[terms]) is -1: int32[terms]."""
    order = np.lexsort((-use.objects, given < 0))
    objects, subscriptions = (use.object_offsets, use.object_terms), (use.subscription_offsets, use.subscription_terms)
    rated = (rates.pair, rates.object, rates.subscription)
    seconds = rates.posting * use.reads
    return np.asarray(deal_by_spread(order, given, *objects, *subscriptions, seconds, workers, *rated, AFFINITY))
