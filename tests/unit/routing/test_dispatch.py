"""The dispatch index against its slow twin, and that each pair meets at exactly one worker."""

import pickle

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pststream.domain.plan import DispatchGrid, PartitionPlan, space_plan
from pststream.domain.planner_sample import WorkloadSample
from pststream.routing.dispatch import DispatchIndex
from tests.oracles import dispatch as slow
from tests.plans import TERMS, make_sample, pack, plans, quarters, samples, unpack
from tests.routes import check_meetings, routed, stored


@settings(max_examples=150, deadline=None)
@given(plans(), samples(), st.integers(0, 2**32 - 1))
def test_equals_the_slow_twin(plan: PartitionPlan, sample: WorkloadSample, seed: int) -> None:
    index = DispatchIndex(plan)
    live = np.random.default_rng(seed).random(len(sample.terms)) < 0.7
    alive = unpack(*pack([[t for t, is_live in zip(terms, flags) if is_live] for terms, flags in _with(sample, live)]))
    points = list(zip(sample.lon.tolist(), sample.lat.tolist()))
    assert routed(index, sample, live) == [
        slow.workers_of_object(plan, *point, terms) for point, terms in zip(points, alive)
    ]
    posts = unpack(sample.post_offsets, sample.post_terms)
    assert stored(index, sample) == [
        slow.workers_of_piece(plan, tuple(box), terms) for box, terms in zip(sample.boxes.tolist(), posts)
    ]
    owner = np.repeat(np.arange(sample.objects), np.diff(sample.term_offsets))
    expected = [slow.owner(plan, slow.cell_of(plan.grid, *points[i]), t) for i, t in zip(owner, sample.terms.tolist())]
    assert index.unit_of(sample.lon[owner], sample.lat[owner], sample.terms).tolist() == expected
    units = index.units_of_objects(sample.lon, sample.lat, sample.term_offsets, sample.terms)
    assert units.tolist() == expected


def _with(sample: WorkloadSample, live: np.ndarray) -> list[tuple[list[int], list[bool]]]:
    flags = unpack(sample.term_offsets, live)
    return list(zip(unpack(sample.term_offsets, sample.terms), flags))  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(plans(), samples())
def test_each_pair_meets_once_for_each_term_it_shares(plan: PartitionPlan, sample: WorkloadSample) -> None:
    check_meetings(plan, sample)


@given(samples())
@settings(max_examples=20, deadline=None)
def test_pickles(sample: WorkloadSample) -> None:
    index = DispatchIndex(quarters())
    again = pickle.loads(pickle.dumps(index))
    assert stored(again, sample) == stored(index, sample)


def test_edges_and_corners_of_cells() -> None:
    index = DispatchIndex(quarters())
    sample = make_sample(
        points=[(4.0, 4.0), (3.999, 4.0), (-99.0, 99.0), (0.0, 0.0), (8.0, 8.0)],
        terms=[[1]] * 5,
        boxes=[(4, 4, 4, 4), (3.9, 3.9, 4, 4), (4, 0, 9, 3.9), (-180, -90, 180, 90), (1, 1, 2, 2), (1, 1, 2, 2)],
        posts=[[1], [1], [1], [1], [1], []],
    )
    assert routed(index, sample, np.ones(5, dtype=bool)) == [[3], [2], [2], [0], [3]]
    assert stored(index, sample) == [[3], [0, 1, 2, 3], [1], [0, 1, 2, 3], [0], []]
    assert routed(index, sample, np.zeros(5, dtype=bool)) == [[]] * 5


@settings(max_examples=60, deadline=None)
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


def test_terms_of_all_64_bits_are_spread() -> None:
    none = np.zeros(2, dtype=np.int64)
    plan = PartitionPlan(
        "text", 3, DispatchGrid(0, 0, 1, 1, 1, 1), np.zeros(1, np.int32), np.array([-1], np.int32),
        none, np.empty(0, np.int64), np.empty(0, np.int32),
        np.array([0, 3]), np.arange(3, dtype=np.int32), np.arange(3, dtype=np.int32),
    )  # fmt: skip
    terms = np.array(TERMS)
    assert DispatchIndex(plan).unit_of(np.zeros(len(terms)), np.zeros(len(terms)), terms).tolist() == [
        term % 2**64 % 3 for term in TERMS
    ]
