"""Keyword hash planner: partition by text alone; a hash assigns each term to a worker, whatever its load."""

import numpy as np

from pststream.planning.load_model import CostModel
from pststream.planning.planners.contract import Options, options_and_raster
from pststream.plans.plan import PartitionPlan, text_plan
from pststream.plans.planner_sample import WorkloadSample


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan of one leaf that lists no term, so that the hash of each word decides its worker.

    A term id is a hash of the word; the worker is the id modulo the number of workers.

    options  columns, rows: of the raster, which local adjustment uses

    Source: textual routing, a peer in Tornado, section 6.2. Departure: a subscription goes to the workers of the words
    that it is posted under, not of all its words, as the other words cannot bring it before an object.
    """
    chosen, grid = options_and_raster("keyword_hash", sample, options)
    return text_plan("keyword_hash", grid, np.empty(0, np.int64), np.empty(0, np.int32), workers, chosen)
