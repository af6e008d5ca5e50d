"""Compute the load of each worker and unit under a plan from a sample, by PS2Stream's cost model (Definition 1)."""

from dataclasses import dataclass
from math import pi

import numpy as np

from pststream.base.arrays import distinct_values, sum_slices
from pststream.kernels.planning.assign_nodes import Rates
from pststream.kernels.planning.count_loads import count_objects, count_subscriptions
from pststream.kernels.routing.pyramid import build_pyramid
from pststream.planning.dispatch import TreeWalk, plan_arrays
from pststream.planning.live_terms import group_pieces_by_subscription, keep_pieces, mark_live_terms
from pststream.planning.raster import compute_cell_ranges
from pststream.plans.imbalance import imbalance_of
from pststream.plans.plan import ObjectPlan, PartitionPlan, SubscriptionPlan
from pststream.plans.planner_sample import POSTING_READS, WorkloadSample
from pststream.settings import Settings


@dataclass(frozen=True)
class CostModel:
    """Constants of Definition 1, and of reading and matching postings, in seconds.

    check      c1: each pair of an object and a subscription of a worker
    object     c2: handle one object
    insert     c3: handle one insertion
    delete     c4: handle one deletion
    posting    read one posting under a term of an object in the object's index cells
    match      find and write one match of `range`
    match_knn  find one candidate of `knn`, and divide it by bucket

    The sample counts a match as a number of postings (`match_reads`). The other constants are those of both kinds.

    Departure from the paper, whose workers check an object against all subscriptions of its cell, so its model counts
    all pairs of a worker: here an object reads only the postings of its own terms, so c1 is close to 0, and objects
    differ in cost by `posting`, `match` and `match_knn`. With 0 for these, this is exactly Definition 1.
    """

    check: float
    object: float
    insert: float
    delete: float
    posting: float = 0.0
    match: float = 0.0
    match_knn: float = 0.0

    @classmethod
    def of(cls, settings: Settings) -> "CostModel":
        """Return the constants in the settings of a home."""
        return cls(**{name: getattr(settings, f"cost_{name}") for name in cls.__dataclass_fields__})

    def match_reads(self, is_knn: np.ndarray) -> np.ndarray | None:
        """Return the time of a match of each piece in units of `reads`: int32[pieces]; None if no match costs anything.

        is_knn: bool[pieces]. A sample counts the objects in the box of a circle, which fills pi / 4 of it.
        """
        if not self.posting or not (self.match or self.match_knn):
            return None
        postings = np.where(is_knn, self.match_knn * pi / 4, self.match) / self.posting
        return np.rint(postings * POSTING_READS).astype(np.int32)

    def rates(self, sample: WorkloadSample) -> "LoadRates":
        """Scale the constants so that counts of the sample give the load of the whole period.

        This is the only place where insertions and deletions are weighed against objects.
        """
        requests = self.insert * sample.insertions + self.delete * sample.deletions
        return LoadRates(
            pair=self.check * sample.object_scale * sample.subscription_scale,
            object=self.object * sample.object_scale,
            subscription=requests * sample.subscription_scale,
            read=self.posting / POSTING_READS * sample.object_scale * sample.subscription_scale,
        )


@dataclass(frozen=True)
class LoadRates:
    """Seconds of the period for each sampled pair, object, subscription and unit of `reads` of a worker.

    Departure from Definition 1, whose subscriptions are those inserted or deleted in the period: here they are all live
    subscriptions, as these are what objects are checked against, so each has an equal share of the cost of the
    insertions and deletions of the period.
    """

    pair: float
    object: float
    subscription: float
    read: float = 0.0

    @property
    def row_rates(self) -> Rates:
        """The rates of pairs, objects and subscriptions, as kernels take them."""
        return Rates(pair=self.pair, object=self.object, subscription=self.subscription)

    def load(self, objects: np.ndarray, subscriptions: np.ndarray, reads: np.ndarray) -> np.ndarray:
        """Compute the load of workers from their numbers of sampled objects, subscriptions and `reads`.

        Returns seconds, float64 of the same shape.
        """
        pairs = self.pair * objects * subscriptions
        return pairs + self.object * objects + self.subscription * subscriptions + self.read * reads


@dataclass(frozen=True)
class WorkerLoads:
    """Loads of a sample under a plan; counts are scaled to the whole period.

    objects             float64[workers]  objects sent to each worker
    subscriptions       float64[workers]  subscriptions stored at each worker
    reads               float64[workers]  postings that its objects read; a match adds as many as are read in its time
    load                float64[workers]  seconds
    unit_objects        float64[units]    objects that probe each unit
    unit_subscriptions  float64[units]    subscriptions stored for each unit
    unit_load           float64[units]    seconds, if each unit had a worker of its own
    """

    objects: np.ndarray
    subscriptions: np.ndarray
    reads: np.ndarray
    load: np.ndarray
    unit_objects: np.ndarray
    unit_subscriptions: np.ndarray
    unit_load: np.ndarray

    @property
    def total(self) -> float:
        """Load of all workers together, seconds."""
        return float(self.load.sum())

    @property
    def max(self) -> float:
        """Load of the most loaded worker, seconds."""
        return float(self.load.max())

    @property
    def min(self) -> float:
        """Load of the least loaded worker, seconds."""
        return float(self.load.min())

    @property
    def imbalance(self) -> float:
        """Greatest load over the least."""
        return imbalance_of(self.load)

    @property
    def figures(self) -> dict[str, object]:
        """The loads as columns of the table `plans`."""
        return {
            "load_total": self.total,
            "load_max": self.max,
            "load_min": self.min,
            "imbalance": self.imbalance,
            "worker_loads": [float(load) for load in self.load],
        }


def compute_worker_loads(sample: WorkloadSample, plan: PartitionPlan, cost: CostModel) -> WorkerLoads:
    """Compute the load of each worker and unit of `plan` for the workload of `sample`.

    An object counts at a worker that owns one of its live terms (terms under which the sample posts a subscription) in
    its raster cell. A subscription counts once at each worker that stores a piece of it. An (object, term) reads its
    postings at the one worker that owns it. Under a plan that shares by subscription each worker has its own
    subscriptions and postings, and an object counts at a worker only if it reads a posting there, because the filter of
    the worker tests the index cell too. Under one that shares by object, an object counts at one unit, and a
    subscription at all units that its boxes touch.

    Source: PS2Stream, section IV-A, Definitions 1 and 2.
    """
    if isinstance(plan, SubscriptionPlan):
        return _loads_by_subscription(sample, plan, cost)
    ranges = compute_cell_ranges(plan.grid, sample.boxes)
    if isinstance(plan, ObjectPlan):
        tree = TreeWalk(plan, plan.nodes)
        places = tree.units_of_objects(sample.lon, sample.lat, sample.term_offsets, sample.terms)
        arrays, stored = tree.unit_arrays, _count_stored(sample, plan, tree, ranges)
    else:
        places, arrays = plan.grid.cell(sample.lon, sample.lat), plan_arrays(plan)
        leaves = build_pyramid(plan.cell_leaf, plan.grid.columns, plan.grid.rows, plan.leaves)
        pieces = *group_pieces_by_subscription(sample), sample.post_offsets, sample.post_terms
        stored = count_subscriptions(ranges, *pieces, arrays, leaves, plan.workers)
    words = sample.term_offsets, sample.terms, mark_live_terms(sample), sample.reads
    of_unit, of_worker, reads = count_objects(places, *words, arrays, plan.workers)
    worker_reads = np.bincount(plan.unit_worker, reads, plan.workers)
    return _scaled_loads(sample, cost, (of_unit, stored[0], reads), (of_worker, stored[1], worker_reads))


def _count_stored(
    sample: WorkloadSample, plan: ObjectPlan, tree: TreeWalk, ranges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the subscriptions of each unit and of each worker of a plan that shares by object: int64."""
    offsets, unit = tree.units_of_ranges(ranges, np.diff(sample.post_offsets) > 0)
    _, key = np.unique(sample.piece_key, return_inverse=True)
    key = np.repeat(key.astype(np.int64), np.diff(offsets))
    by_unit, by_worker = (
        np.bincount(distinct_values(key * count + owner) % count, minlength=count)
        for owner, count in ((unit, plan.units), (plan.unit_worker[unit], plan.workers))
    )
    return by_unit, by_worker


Counts = tuple[np.ndarray, np.ndarray, np.ndarray]


def _scaled_loads(
    sample: WorkloadSample, cost: CostModel, of_units: np.ndarray | Counts, of_workers: np.ndarray | Counts
) -> WorkerLoads:
    """Scale counts of a sample, and compute the loads.

    of_units, of_workers  objects, subscriptions and `reads` of each
    """
    objects, subscriptions, reads = of_workers
    rates = cost.rates(sample)
    return WorkerLoads(
        objects=objects * sample.object_scale,
        subscriptions=subscriptions * sample.subscription_scale,
        reads=reads / POSTING_READS * sample.object_scale * sample.subscription_scale,
        load=rates.load(objects, subscriptions, reads),
        unit_objects=of_units[0] * sample.object_scale,
        unit_subscriptions=of_units[1] * sample.subscription_scale,
        unit_load=rates.load(*of_units),
    )


def _loads_by_subscription(sample: WorkloadSample, plan: SubscriptionPlan, cost: CostModel) -> WorkerLoads:
    """Compute the loads under a plan that shares by subscription: those of each unit with its own subscriptions.

    The postings that the sample lacks are taken to be where the sampled ones are, and evenly at all units, as such a
    planner places them: an object without a sampled posting at a unit reads another with a probability (Poisson).
    """
    units = plan.owner_units(sample.piece_key, sample.recorded_units)
    unsampled = (sample.subscription_scale - 1.0) * sum_slices(sample.postings, sample.term_offsets) / plan.units
    counts = np.zeros((3, plan.units))
    for unit in range(plan.units):
        of_unit = keep_pieces(sample, units == unit)
        shares = np.where(sum_slices(of_unit.postings, of_unit.term_offsets) > 0, 1.0, 1.0 - np.exp(-unsampled))
        # The sum is the same in any order of the objects.
        counts[:, unit] = np.sort(shares).sum(), of_unit.subscriptions, of_unit.reads.sum()
    return _scaled_loads(sample, cost, counts, counts[:, np.argsort(plan.unit_worker)])
