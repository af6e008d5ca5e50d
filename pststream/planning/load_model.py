"""Compute the load of each worker and unit under a plan from a sample, by PS2Stream's cost model (Definition 1)."""

from dataclasses import dataclass
from math import pi

import numpy as np

from pststream.base.arrays import distinct_values
from pststream.kernels.planning.assign_nodes import Rates
from pststream.kernels.planning.count_loads import count_objects, count_subscriptions
from pststream.kernels.routing.dispatch import PlanArrays
from pststream.kernels.routing.pyramid import build_pyramid
from pststream.planning.dispatch import TreeWalk
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
    reads               float64[workers]  postings that its objects read; a match counts as those read in its time
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
    subscriptions and postings, and an object counts at a worker if it reads a posting there, as its filter is by place
    too. Under one that shares by object, an object counts at one unit, and a subscription at all units that its boxes
    touch.

    Source: PS2Stream, section IV-A, Definitions 1 and 2.
    """
    if isinstance(plan, SubscriptionPlan):
        return _loads_by_subscription(sample, plan, cost)
    if isinstance(plan, ObjectPlan):
        return _loads_by_object(sample, plan, cost)
    arrays = PlanArrays(*(getattr(plan, name) for name in PlanArrays._fields))
    of_objects = _count_objects(sample, plan, plan.grid.cell(sample.lon, sample.lat), arrays)
    order, groups = group_pieces_by_subscription(sample)
    leaves = build_pyramid(plan.cell_leaf, plan.grid.columns, plan.grid.rows, plan.leaves)
    stored_unit, stored_worker = count_subscriptions(
        compute_cell_ranges(plan.grid, sample.boxes),
        order,
        groups,
        sample.post_offsets,
        sample.post_terms,
        arrays,
        leaves,
        plan.workers,
    )
    return _scaled_loads(sample, plan, cost, of_objects, (stored_unit, stored_worker))


def _count_objects(
    sample: WorkloadSample, plan: PartitionPlan, cells: np.ndarray, arrays: PlanArrays
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the objects of each unit, the objects of each worker, and the postings read for each unit."""
    live = mark_live_terms(sample)
    return count_objects(cells, sample.term_offsets, sample.terms, live, sample.reads, arrays, plan.workers)


def _scaled_loads(
    sample: WorkloadSample,
    plan: PartitionPlan,
    cost: CostModel,
    of_objects: tuple[np.ndarray, np.ndarray, np.ndarray],
    of_subscriptions: tuple[np.ndarray, np.ndarray],
) -> WorkerLoads:
    """Scale counts of a sample, and compute the loads.

    of_objects        as `_count_objects` returns them
    of_subscriptions  int64[units], int64[workers]  subscriptions of each unit and each worker
    """
    (of_unit, of_worker, unit_reads), (stored_unit, stored_worker) = of_objects, of_subscriptions
    reads = np.bincount(plan.unit_worker, unit_reads, plan.workers)
    rates = cost.rates(sample)
    return WorkerLoads(
        objects=of_worker * sample.object_scale,
        subscriptions=stored_worker * sample.subscription_scale,
        reads=reads / POSTING_READS * sample.object_scale * sample.subscription_scale,
        load=rates.load(of_worker, stored_worker, reads),
        unit_objects=of_unit * sample.object_scale,
        unit_subscriptions=stored_unit * sample.subscription_scale,
        unit_load=rates.load(of_unit, stored_unit, unit_reads),
    )


def _loads_by_object(sample: WorkloadSample, plan: ObjectPlan, cost: CostModel) -> WorkerLoads:
    """Compute the loads under a plan that shares by object."""
    tree = TreeWalk(plan, plan.nodes)
    units = tree.units_of_objects(sample.lon, sample.lat, sample.term_offsets, sample.terms)
    of_objects = _count_objects(sample, plan, units, tree.unit_arrays)
    offsets, unit = tree.units_of_ranges(compute_cell_ranges(plan.grid, sample.boxes), np.diff(sample.post_offsets) > 0)
    _, key = np.unique(sample.piece_key, return_inverse=True)
    key = np.repeat(key.astype(np.int64), np.diff(offsets))
    stored = [
        np.bincount(distinct_values(key * number + owner) % number, minlength=number)
        for owner, number in ((unit, plan.units), (plan.unit_worker[unit], plan.workers))
    ]
    return _scaled_loads(sample, plan, cost, of_objects, (stored[0], stored[1]))


def _loads_by_subscription(sample: WorkloadSample, plan: SubscriptionPlan, cost: CostModel) -> WorkerLoads:
    """Compute the loads under a plan that shares by subscription: those of each unit with its own subscriptions.

    The postings that the sample lacks are taken to be where the sampled ones are, and evenly at all units, as such a
    planner places them: an object without a sampled posting at a unit reads another with a probability (Poisson).
    """
    units = plan.owner_units(sample.piece_key, sample.recorded_units)
    unsampled = (sample.subscription_scale - 1.0) * _postings_by_object(sample) / plan.units
    objects, subscriptions, reads = np.zeros((3, plan.units))
    for unit in range(plan.units):
        of_unit = keep_pieces(sample, units == unit)
        shares = np.where(_postings_by_object(of_unit) > 0, 1.0, 1.0 - np.exp(-unsampled))
        objects[unit] = np.sort(shares).sum()  # the same in any order of the objects
        subscriptions[unit] = of_unit.subscriptions
        reads[unit] = of_unit.reads.sum()
    load = cost.rates(sample).load(objects, subscriptions, reads)
    unit_of_worker = np.argsort(plan.unit_worker)
    return WorkerLoads(
        objects=objects[unit_of_worker] * sample.object_scale,
        subscriptions=subscriptions[unit_of_worker] * sample.subscription_scale,
        reads=reads[unit_of_worker] / POSTING_READS * sample.object_scale * sample.subscription_scale,
        load=load[unit_of_worker],
        unit_objects=objects * sample.object_scale,
        unit_subscriptions=subscriptions * sample.subscription_scale,
        unit_load=load,
    )


def _postings_by_object(sample: WorkloadSample) -> np.ndarray:
    """Return the number of postings that each object reads: int64[objects]."""
    sums = np.append(0, np.cumsum(sample.postings, dtype=np.int64))
    return np.asarray(np.diff(sums[sample.term_offsets]))
