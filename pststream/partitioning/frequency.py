"""The frequency planner: terms dealt to the workers by how frequent they are."""

import numpy as np

from pststream.cost.load_model import CostModel
from pststream.domain.plan import PartitionPlan, text_plan
from pststream.domain.planner_sample import WorkloadSample
from pststream.kernels.planning.deal_terms import deal_by_frequency
from pststream.partitioning.contract import Options, whole_numbers
from pststream.samples.sample_terms import term_use
from pststream.space.plan_raster import COLUMNS, ROWS, bounds_of

DEFAULTS = {"columns": COLUMNS, "rows": ROWS}


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """One leaf, partitioned by text; each term goes to the worker that is the least loaded with it.

    Terms come in descending order of their load, that of a worker with no other term. A worker is taken to get as many
    objects and subscriptions, and to read as many postings, as its terms do in sum. Terms that the sample posts no
    subscription under are spread by their hash.

    options  columns, rows: of the raster

    Source: frequency-based partitioning of PS2Stream, section VI-B, which uses "the frequency values of the terms" and
    says no more. Departure: frequencies in objects and in subscriptions are weighed by Definition 1.
    """
    chosen = whole_numbers("frequency", options, DEFAULTS)
    grid = bounds_of(sample.lon, sample.lat, sample.boxes, chosen["columns"], chosen["rows"])
    use, rates = term_use(sample), cost.rates(sample)
    order = np.argsort(-rates.load(use.objects, use.subscriptions, use.reads), kind="stable")
    rated = (rates.pair, rates.object, rates.subscription)
    term_worker = deal_by_frequency(order, use.objects, use.subscriptions, rates.posting * use.reads, workers, *rated)
    return text_plan("frequency", grid, use.ids, term_worker, workers, dict(chosen))
