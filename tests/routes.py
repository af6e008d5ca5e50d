"""Read the routes of a dispatch index as lists, and check that each pair meets at exactly one worker."""

import numpy as np

from pststream.kernels.matching.postings import LiveTerms
from pststream.planning.dispatch import DispatchIndex, make_dispatch
from pststream.plans.plan import ObjectPlan, PartitionPlan, SubscriptionPlan
from pststream.plans.plan_nodes import find_unit
from pststream.plans.planner_sample import WorkloadSample
from tests.oracles.bloom_filter import filter_of_terms
from tests.plans import unpack


def routed(index: DispatchIndex, sample: WorkloadSample, live: LiveTerms) -> list[list[int]]:
    """Return the workers that each object goes to."""
    place, worker = index.route_objects(sample.lon, sample.lat, sample.term_offsets, sample.terms, [live])
    assert place.dtype == worker.dtype == np.int32
    assert (np.diff(place) >= 0).all()
    return [worker[place == i].tolist() for i in range(sample.objects)]


def units_of(index: DispatchIndex, lon: np.ndarray, lat: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Return the unit that serves each (point, term): int32; the three arrays have one entry for each."""
    units, _ = index.units_of_objects(lon, lat, np.arange(len(terms) + 1), terms)
    return units


def stored(index: DispatchIndex, sample: WorkloadSample) -> list[list[int]]:
    """Return the workers that store each piece."""
    offsets, workers = index.workers_of_sample(sample)
    assert offsets.dtype == np.int64
    assert workers.dtype == np.int32
    return unpack(offsets, workers)


def check_meetings(plan: PartitionPlan, sample: WorkloadSample) -> None:
    """Assert that exactly one worker stores the piece and is probed by the object for each shared term: its owner."""
    index = make_dispatch(plan)
    if isinstance(plan, SubscriptionPlan):
        check_owners(plan, index, sample)
        return
    goes_to = routed(index, sample, filter_of_terms(sample.post_terms.tolist()))
    stored_at = stored(index, sample)
    posts = [set(terms) for terms in unpack(sample.post_offsets, sample.post_terms)]
    units, _ = index.units_of_objects(sample.lon, sample.lat, sample.term_offsets, sample.terms)
    terms_of, units_of = (unpack(sample.term_offsets, values) for values in (sample.terms, units))
    unit_worker, points = plan.unit_worker.tolist(), zip(sample.lon.tolist(), sample.lat.tolist())
    west, south, east, north = sample.boxes.T
    for i, ((x, y), terms, owners) in enumerate(zip(points, terms_of, units_of, strict=True)):
        if isinstance(plan, ObjectPlan):
            column, row = plan.grid.cell_x(np.array(x)), plan.grid.cell_y(np.array(y))
            assert set(owners) <= {find_unit(plan.nodes, int(column), int(row), set(terms))}
        inside = (west <= x) & (x <= east) & (south <= y) & (y <= north)
        for piece in np.flatnonzero(inside).tolist():
            for term, unit in zip(terms, owners, strict=True):
                if term in posts[piece]:
                    owner = unit_worker[unit]
                    assert goes_to[i].count(owner) == 1 and owner in stored_at[piece]


def check_owners(plan: SubscriptionPlan, index: DispatchIndex, sample: WorkloadSample) -> None:
    """Assert that each object goes to the one owner of each piece that shares a term with it, and nowhere else."""
    owners = plan.owner_workers(sample.piece_key, sample.recorded_units)
    posts = unpack(sample.post_offsets, sample.post_terms)
    live = [set[int]() for _ in range(plan.workers)]
    for owner, terms in zip(owners, posts):
        live[owner].update(terms)
    filters = [filter_of_terms(sorted(terms)) for terms in live]
    place, worker = index.route_objects(sample.lon, sample.lat, sample.term_offsets, sample.terms, filters)
    assert place.dtype == worker.dtype == np.int32
    assert (np.diff(place) >= 0).all()
    for i, terms in enumerate(unpack(sample.term_offsets, sample.terms)):
        assert worker[place == i].tolist() == [w for w, known in enumerate(live) if known & set(terms)]
        units, _ = index.units_of_objects(np.zeros(1), np.zeros(1), np.array([0, len(terms)]), np.array(terms), 0)
        assert set(plan.unit_worker[units].tolist()) <= {0}
