"""The hypergraph planner: terms are vertices, objects and subscriptions are nets that should lie on few workers."""

import os
from functools import lru_cache

import mtkahypar
import numpy as np

from pststream.cost.load_model import CostModel, LoadRates
from pststream.domain.mixing import mix
from pststream.domain.plan import PartitionPlan, text_plan
from pststream.domain.planner_sample import WorkloadSample
from pststream.partitioning.contract import Options, whole_numbers
from pststream.partitioning.metric import deal_terms
from pststream.samples.sample_terms import TermUse, term_use
from pststream.space.plan_raster import COLUMNS, ROWS, bounds_of

DEFAULTS = {"columns": COLUMNS, "rows": ROWS, "seed": 1}

IMBALANCE = 0.03
"""What the weight of a worker's terms may exceed the mean by."""

MOST_VERTICES = 2048
"""Terms that are partitioned as a hypergraph, those of the greatest weight: most others occur in few objects."""

MOST_PINS = 40_000
"""Entries of nets that are looked at; of more, a sample of the nets is taken: the time grows faster than they do."""

_TOTAL_WEIGHT = 1 << 29
"""Of all vertices, and of all nets: the partitioner adds up weights in 32 bits."""


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """One leaf, partitioned by text so that few objects and subscriptions have terms at several workers.

    A vertex is a term, weighted by what it brings: the objects that have it, the subscriptions posted under it and the
    postings read. A net is the set of terms of an object, or of those that a subscription is posted under, weighted by
    what each further worker that gets it costs. The sum of these costs over the nets (connectivity - 1) is made small
    while the vertex weights stay even. Terms that the sample posts no subscription under are spread by their hash.

    options  columns, rows: of the raster; seed: of the partitioner

    Source: hypergraph-based partitioning of PS2Stream, section VI-B, which names Cambazoglu, Kayaaslan, Jonassen,
    Aykanat, "A term-based inverted index partitioning model for efficient distributed query processing", ACM TWEB 7(3),
    2013; there the nets are queries to a search engine. Departures: the nets are what travels here; the partitioner is
    Mt-KaHyPar in its deterministic configuration; terms beyond MOST_VERTICES are dealt after the others as `metric`
    deals them; of more than MOST_PINS pins, nets are sampled by a hash of their terms. Definition 1 has a product,
    vertex weights do not: it is taken at the mean of all workers.
    """
    chosen = whole_numbers("hypergraph", options, DEFAULTS)
    grid = bounds_of(sample.lon, sample.lat, sample.boxes, chosen["columns"], chosen["rows"])
    use, rates = term_use(sample), cost.rates(sample)
    of_object, of_subscription = _linear(rates, use, workers)
    weights = of_object * use.objects + of_subscription * use.subscriptions + rates.posting * use.reads
    vertices = np.sort(np.argsort(-weights, kind="stable")[:MOST_VERTICES])
    given = np.full(len(weights), -1, dtype=np.int32)
    if workers > 1 and len(vertices) > workers:
        nets, net_weights = _nets(use, vertices, of_object, of_subscription)
        given[vertices] = _partition(_whole_weights(weights[vertices]), nets, net_weights, workers, chosen["seed"])
    term_worker = deal_terms(use, given, workers, rates)
    return text_plan("hypergraph", grid, use.ids, term_worker, workers, dict(chosen))


def _linear(rates: LoadRates, use: TermUse, workers: int) -> tuple[float, float]:
    """Seconds of one more object, and of one more subscription, at a worker with the mean number of the others."""
    objects = int((np.diff(use.object_offsets) > 0).sum())
    subscriptions = int((np.diff(use.subscription_offsets) > 0).sum())
    of_object = rates.object + rates.pair * subscriptions / workers
    return of_object, rates.subscription + rates.pair * objects / workers


def _nets(
    use: TermUse, vertices: np.ndarray, of_object: float, of_subscription: float
) -> tuple[list[list[int]], np.ndarray]:
    """Distinct sets of at least two vertices, and the weight of each: int64[nets]; a function of the sets alone."""
    place = np.full(len(use.ids), -1, dtype=np.int64)
    place[vertices] = np.arange(len(vertices))
    pins = place[np.concatenate([use.object_terms, use.subscription_terms])]
    ends = np.concatenate([use.object_offsets, use.subscription_offsets[1:] + len(use.object_terms)])
    offsets = np.concatenate([[0], np.cumsum(pins >= 0)])[ends]
    pins = pins[pins >= 0]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mix(np.arange(len(vertices)))[pins])])
    shared = np.flatnonzero(np.diff(offsets) > 1)
    _, first, net = np.unique(np.diff(sums[offsets])[shared], return_index=True, return_inverse=True)
    rows = shared[first]
    weights = np.bincount(net, np.where(shared < len(use.object_offsets) - 1, of_object, of_subscription))
    starts, sizes = offsets[rows], np.diff(offsets)[rows]
    taken = np.flatnonzero(np.cumsum(sizes) <= MOST_PINS)
    taken = taken[np.argsort(sizes[taken], kind="stable")]
    starts, sizes = starts[taken], sizes[taken]
    nets: list[list[int]] = []
    for size in np.unique(sizes):
        nets += pins[starts[sizes == size][:, None] + np.arange(size)].tolist()
    return nets, _whole_weights(weights[taken])


def _whole_weights(weights: np.ndarray) -> np.ndarray:
    """Weights in proportion, as whole numbers of at least 1: int64."""
    total = float(weights.sum())
    scaled = weights * (_TOTAL_WEIGHT / total) if total > 0.0 else weights
    return np.maximum(np.rint(scaled), 1).astype(np.int64)


@lru_cache(maxsize=1)
def _partitioner() -> mtkahypar.Initializer:
    return mtkahypar.initialize(os.cpu_count() or 1)


def _partition(
    vertex_weights: np.ndarray, nets: list[list[int]], net_weights: np.ndarray, parts: int, seed: int
) -> np.ndarray:
    """The part of each vertex: int64[vertices]; the same for the same seed, with any number of threads."""
    partitioner = _partitioner()
    mtkahypar.set_seed(seed)
    context = partitioner.context_from_preset(mtkahypar.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(parts, IMBALANCE, mtkahypar.Objective.KM1)
    context.logging = False
    weights = vertex_weights.tolist(), net_weights.tolist()
    graph = partitioner.create_hypergraph(context, len(vertex_weights), len(nets), nets, *weights)
    return np.array(graph.partition(context).get_partition())
