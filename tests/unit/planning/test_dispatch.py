"""The dispatch index against its slow twin, and that each pair meets at exactly one worker."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from pststream.kernels.routing.dispatch import BLOCK, group_by_worker
from pststream.planning.dispatch import DispatchIndex
from pststream.plans.plan import DispatchGrid, PartitionPlan, space_plan
from pststream.plans.planner_sample import WorkloadSample
from tests.fuzz.cases import examples
from tests.oracles import dispatch as slow
from tests.oracles.bloom_filter import SlowFilter, filter_of_terms
from tests.plans import make_sample, plans, quarters, samples, unpack
from tests.routes import check_meetings, routed, stored, units_of

LEVELS_AND_WORDS = (((9, 7, 0), 1024), ((9,), 2), ((8, 5), 16), ((0,), 1), ((), 4))
"""Of the filters of live terms; many terms pass the small ones that were not added."""


@examples(150)
@given(plans(), samples(), st.integers(0, 2**32 - 1))
def test_equals_the_slow_twin(plan: PartitionPlan, sample: WorkloadSample, seed: int) -> None:
    index = DispatchIndex(plan)
    random, points = np.random.default_rng(seed), list(zip(sample.lon.tolist(), sample.lat.tolist()))
    live = SlowFilter(*LEVELS_AND_WORDS[seed % len(LEVELS_AND_WORDS)])
    for point, terms in zip(points, unpack(sample.term_offsets, sample.terms)):
        for term in terms:
            if live.levels and random.random() < 0.5:
                live.add(int(random.choice(live.levels)), *point, term)
    assert routed(index, sample, live.arrays()) == [
        slow.workers_of_object(plan, *point, [term for term in terms if live.has(*point, term)])
        for point, terms in zip(points, unpack(sample.term_offsets, sample.terms))
    ]
    posts = unpack(sample.post_offsets, sample.post_terms)
    assert stored(index, sample) == [
        slow.workers_of_piece(plan, tuple(box), terms) for box, terms in zip(sample.boxes.tolist(), posts)
    ]
    owner = np.repeat(np.arange(sample.objects), np.diff(sample.term_offsets))
    expected = [slow.owner(plan, slow.cell_of(plan.grid, *points[i]), t) for i, t in zip(owner, sample.terms.tolist())]
    assert units_of(index, sample.lon[owner], sample.lat[owner], sample.terms).tolist() == expected
    worker_of = plan.unit_worker.tolist()
    for worker in range(-1, plan.workers):
        units, counts = index.units_of_objects(sample.lon, sample.lat, sample.term_offsets, sample.terms, worker)
        served = [unit if worker < 0 or worker_of[unit] == worker else -1 for unit in expected]
        assert units.tolist() == served
        objects = {(i, unit) for i, unit in zip(owner.tolist(), served)}
        assert counts.tolist() == [sum(of == unit for _, of in objects) for unit in range(plan.units)]


@examples(150)
@given(plans(), samples())
def test_each_pair_meets_once_for_each_term_it_shares(plan: PartitionPlan, sample: WorkloadSample) -> None:
    check_meetings(plan, sample)


def test_edges_and_corners_of_cells() -> None:
    index = DispatchIndex(quarters())
    sample = make_sample(
        points=[(4.0, 4.0), (3.999, 4.0), (-99.0, 99.0), (0.0, 0.0), (8.0, 8.0)],
        terms=[[1]] * 5,
        boxes=[(4, 4, 4, 4), (3.9, 3.9, 4, 4), (4, 0, 9, 3.9), (-180, -90, 180, 90), (1, 1, 2, 2), (1, 1, 2, 2)],
        posts=[[1], [1], [1], [1], [1], []],
    )
    assert routed(index, sample, filter_of_terms([1])) == [[3], [2], [2], [0], [3]]
    assert stored(index, sample) == [[3], [0, 1, 2, 3], [1], [0, 1, 2, 3], [0], []]
    assert routed(index, sample, filter_of_terms([])) == [[]] * 5


@examples(60)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 9), st.booleans(), st.integers(0, 2**32 - 1))
@example(64, 64, 9, True, 0)
@example(65, 33, 1, False, 1)
def test_large_boxes_on_rasters_of_any_size(columns: int, rows: int, workers: int, mosaic: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = np.arange(columns * rows) % columns, np.arange(columns * rows) // columns
    leaf = rng.integers(0, 9, columns * rows) if mosaic else (x // 8 + y // 8) % 9
    grid = DispatchGrid(0.0, 0.0, float(columns), float(rows), columns, rows)
    plan = space_plan("any", grid, leaf, rng.integers(0, workers, 9), workers)
    corners = rng.random((30, 4)) * (columns, rows, columns, rows)
    boxes = np.hstack([np.minimum(corners[:, :2], corners[:, 2:]), np.maximum(corners[:, :2], corners[:, 2:])])
    offsets, workers_of_pieces = DispatchIndex(plan).workers_of_pieces(
        boxes, np.arange(31), np.zeros(30, dtype=np.int64)
    )
    expected = [slow.workers_of_piece(plan, tuple(box), [0]) for box in boxes.tolist()]
    assert unpack(offsets, workers_of_pieces) == expected


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 99)), max_size=30).map(sorted))
def test_routes_are_grouped_by_worker(routes: list[tuple[int, int]]) -> None:
    place, worker = (np.array([pair[side] for pair in routes], np.int32) for side in (1, 0))
    order = np.lexsort((worker, place))
    grouped, slices = group_by_worker(place[order], worker[order], 6)
    assert [grouped[slices[w] : slices[w + 1]].tolist() for w in range(6)] == [
        [thing for one, thing in routes if one == w] for w in range(6)
    ]


def test_objects_of_many_blocks_are_routed_as_alone() -> None:
    random = np.random.default_rng(1)
    lon, lat = random.uniform(0, 8, (2, 3 * BLOCK + 5))
    offsets = np.append(0, np.cumsum(random.integers(0, 4, len(lon))))
    terms, live = random.integers(0, 20, offsets[-1]), filter_of_terms(list(range(7)))
    index = DispatchIndex(quarters())
    place, worker = index.route_objects(lon, lat, offsets, terms, [live])
    alone = [
        index.route_objects(lon[i : i + 1], lat[i : i + 1], np.array([0, n]), terms[first : first + n], [live])[1]
        for i, (first, n) in enumerate(zip(offsets[:-1], np.diff(offsets)))
    ]
    assert [worker[place == i].tolist() for i in range(len(lon))] == [found.tolist() for found in alone]
    assert {len(found) for found in alone} == {0, 1}
