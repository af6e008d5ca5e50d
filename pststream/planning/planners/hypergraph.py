"""Hypergraph planner: partition terms with Mt-KaHyPar so that few objects and subscriptions span several workers."""

import os
from functools import lru_cache

import mtkahypar
import numpy as np

from pststream.base.arrays import distinct_values, hash_integers
from pststream.planning.live_terms import TermUse, collect_term_use
from pststream.planning.load_model import CostModel
from pststream.planning.planners.contract import RASTER_OPTIONS, Options, options_and_raster
from pststream.planning.planners.metric import assign_terms
from pststream.plans.plan import PartitionPlan, text_plan
from pststream.plans.planner_sample import WorkloadSample

DEFAULTS = {**RASTER_OPTIONS, "seed": 1}

IMBALANCE = 0.03
"""Share by which the weight of the terms of a worker may exceed the mean."""

MAX_VERTICES = 2048
"""Maximum number of terms partitioned as a hypergraph, the heaviest ones: most others occur in few objects."""

MAX_PINS = 40_000
"""Maximum number of pins (entries of nets); nets are sampled beyond it, as the time grows faster than the pins."""

_TOTAL_WEIGHT = 1 << 29
"""Total weight of all vertices, and of all nets: the partitioner adds up weights in 32 bits."""


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan of one leaf by text, in which few objects and subscriptions have terms at several workers.

    A vertex is a term, weighted by the cost of the objects that have it, the subscriptions posted under it and the
    postings read. A net is the set of terms that an object has, or under which a subscription is posted, weighted by
    the cost of sending the object or subscription to one more worker. The partitioner minimizes the sum of these costs
    over the nets (connectivity - 1) while the vertex weights stay even. Terms under which the sample posts no
    subscription are spread by their id.

    options  columns, rows: of the raster; seed: of the partitioner

    Source: hypergraph-based partitioning of PS2Stream, section VI-B, which names Cambazoglu, Kayaaslan, Jonassen,
    Aykanat, "A term-based inverted index partitioning model for efficient distributed query processing", ACM TWEB 7(3),
    2013; there the nets are queries to a search engine. Departures: the nets are objects and subscriptions here; the
    partitioner is Mt-KaHyPar in its deterministic configuration; terms beyond MAX_VERTICES are assigned after the
    others as `metric` does it; of more than MAX_PINS pins, nets are sampled by a hash of their terms. Definition 1 has
    a product, vertex weights do not: the product is linearized at the mean of all workers.
    """
    chosen, grid = options_and_raster("hypergraph", sample, options, DEFAULTS)
    use, rates = collect_term_use(sample), cost.rates(sample)
    # Seconds that one more object, and one more subscription, cost a worker with the mean of the others.
    objects, subscriptions = ((np.diff(o) > 0).sum() for o in (use.object_offsets, use.subscription_offsets))
    of_object = rates.object + rates.pair * float(subscriptions) / workers
    of_subscription = rates.subscription + rates.pair * float(objects) / workers
    weights = of_object * use.objects + of_subscription * use.subscriptions + rates.read * use.reads
    vertices = np.sort(np.argsort(-weights, kind="stable")[:MAX_VERTICES])
    given = np.full(len(weights), -1, dtype=np.int32)
    if workers > 1 and len(vertices) > workers:
        nets, net_weights = _nets(use, vertices, of_object, of_subscription)
        given[vertices] = _partition(_whole_weights(weights[vertices]), nets, net_weights, workers, chosen["seed"])
    term_worker = assign_terms(use, given, workers, rates)
    return text_plan("hypergraph", grid, use.ids, term_worker, workers, chosen)


def _nets(
    use: TermUse, vertices: np.ndarray, of_object: float, of_subscription: float
) -> tuple[list[list[int]], np.ndarray]:
    """Return the distinct sets of at least two vertices, and the weight of each: int64[nets].

    The result does not depend on the order of objects and subscriptions.
    """
    # Replace terms by vertices, and drop terms that are not vertices.
    vertex = np.full(len(use.ids), -1, dtype=np.int64)
    vertex[vertices] = np.arange(len(vertices))
    pins = vertex[np.concatenate([use.object_terms, use.subscription_terms])]
    ends = np.concatenate([use.object_offsets, use.subscription_offsets[1:] + len(use.object_terms)])
    offsets = np.concatenate([[0], np.cumsum(pins >= 0)])[ends]
    pins = pins[pins >= 0]
    # Sum the weights of equal sets, which are recognized by the sum of the hashes of their vertices.
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hash_integers(np.arange(len(vertices)))[pins])])
    shared = np.flatnonzero(np.diff(offsets) > 1)
    _, first, net = np.unique(np.diff(sums[offsets])[shared], return_index=True, return_inverse=True)
    rows = shared[first]
    weights = np.bincount(net, np.where(shared < len(use.object_offsets) - 1, of_object, of_subscription))
    # Keep nets up to MAX_PINS, in the order of their hashes, and write sets of one size at a time.
    starts, sizes = offsets[rows], np.diff(offsets)[rows]
    kept = np.flatnonzero(np.cumsum(sizes) <= MAX_PINS)
    kept = kept[np.argsort(sizes[kept], kind="stable")]
    starts, sizes = starts[kept], sizes[kept]
    nets: list[list[int]] = []
    for size in distinct_values(sizes):
        nets += pins[starts[sizes == size][:, None] + np.arange(size)].tolist()
    return nets, _whole_weights(weights[kept])


def _whole_weights(weights: np.ndarray) -> np.ndarray:
    """Scale weights to whole numbers of at least 1: int64."""
    total = float(weights.sum())
    scaled = weights * (_TOTAL_WEIGHT / total) if total > 0.0 else weights
    return np.maximum(np.rint(scaled), 1).astype(np.int64)


@lru_cache(maxsize=1)
def _partitioner() -> mtkahypar.Initializer:
    return mtkahypar.initialize(os.cpu_count() or 1)


def _partition(
    vertex_weights: np.ndarray, nets: list[list[int]], net_weights: np.ndarray, workers: int, seed: int
) -> np.ndarray:
    """Return the partition of each vertex: int64[vertices]; the same for the same seed, with any number of threads."""
    partitioner = _partitioner()
    mtkahypar.set_seed(seed)
    context = partitioner.context_from_preset(mtkahypar.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(workers, IMBALANCE, mtkahypar.Objective.KM1)
    context.logging = False
    weights = vertex_weights.tolist(), net_weights.tolist()
    graph = partitioner.create_hypergraph(context, len(vertex_weights), len(nets), nets, *weights)
    return np.array(graph.partition(context).get_partition())
