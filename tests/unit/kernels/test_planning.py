"""Kernels of planners: nodes and partitions against the paper and all choices, cuts of the walk, pyramids."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.kernels.planning.assign_nodes import Rates, assign_nodes, choose_partition_counts, level_workers
from pststream.kernels.planning.cut_curve import Walk, compute_run_load, cut_walk, find_block_entries
from pststream.kernels.routing.pyramid import MIXED, Pyramid, build_pyramid
from pststream.planning.raster import hilbert_walk
from tests.fuzz.cases import examples
from tests.oracles import ps2stream

RATES = Rates(1.0, 4.0, 6.0)
EXACT = (1, 4, 6, 1)
"""The same in whole numbers, and the factor of the seconds of reading."""


@examples(100)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_assigns_as_the_paper_does(nodes: int, workers: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    figures = rng.integers(1, 40, (3, nodes))
    objects, subscriptions, reads = figures.astype(np.float64)
    own = RATES[0] * objects * subscriptions + RATES[1] * objects + RATES[2] * subscriptions + reads
    order = np.argsort(-own, kind="stable")
    node_worker, load = assign_nodes(order, objects, subscriptions, reads, RATES, workers)
    assert node_worker.tolist() == ps2stream.assign_nodes(list(zip(*figures.tolist())), EXACT, workers)
    o, s, r = (np.bincount(node_worker, figure, workers) for figure in (objects, subscriptions, reads))
    assert load == pytest.approx(RATES[0] * o * s + RATES[1] * o + RATES[2] * s + r)


@examples(60)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_levelling_takes_the_best_steps_until_no_single_one_helps(nodes: int, workers: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    figures = rng.integers(0, 40, (3, nodes))
    objects, subscriptions, reads = figures.astype(np.float64)
    node_worker = rng.integers(0, workers, nodes)
    expected = ps2stream.level_workers(list(zip(*figures.tolist())), node_worker.tolist(), EXACT, workers)

    def loads(node_worker: np.ndarray) -> np.ndarray:
        o, s, r = (np.bincount(node_worker, figure, workers) for figure in (objects, subscriptions, reads))
        return np.asarray(RATES[0] * o * s + RATES[1] * o + RATES[2] * s + r)

    before = loads(node_worker).max()
    level_workers(node_worker, objects, subscriptions, reads, RATES, workers, 1000)
    assert node_worker.tolist() == expected
    after = loads(node_worker)
    assert after.max() <= before * (1 + 1e-9)
    top = int(np.argmax(after))
    for node, worker in product(np.flatnonzero(node_worker == top), range(workers)):
        moved = node_worker.copy()
        moved[node] = worker
        if worker != top:
            assert max(loads(moved)[[top, worker]]) >= after[top] * (1 - 1e-6)


def test_nodes_without_any_load_do_not_matter() -> None:
    node_worker, load = assign_nodes(np.arange(5), np.zeros(5), np.zeros(5), np.zeros(5), RATES, 2)
    assert len(node_worker) == 5
    assert load.tolist() == [0, 0]


@examples(100)
@given(st.integers(1, 4), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_no_other_choice_is_better(nodes: int, spare: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    max_counts = rng.integers(1, spare + 2, nodes)
    start = np.concatenate([[0], np.cumsum(max_counts)])
    loads = rng.integers(0, 50, start[-1]).astype(np.float64)
    counts = choose_partition_counts(start, loads, nodes + spare)
    ways = [way for way in product(*(range(1, k + 1) for k in max_counts)) if sum(way) <= nodes + spare]
    sums = [sum(loads[start[i] + k - 1] for i, k in enumerate(way)) for way in ways]
    assert tuple(counts) in ways
    assert sum(loads[start[i] + k - 1] for i, k in enumerate(counts)) == min(sums)


def test_all_partitions_are_used_among_equal_sums() -> None:
    assert choose_partition_counts(np.array([0, 3, 6]), np.zeros(6), 4).sum() == 4


@given(st.lists(st.sampled_from((-1e-16, 0.0, 1e-16, 1e-15)), min_size=9, max_size=9))
def test_equal_sums_that_are_rounded_differently_are_equal(noise: list[float]) -> None:
    """Three nodes alike share seven partitions: in any order 3, 2 and 2 have the least sum."""
    loads = np.tile([7.3, 4.1, 3.7], 3) * (1.0 + np.array(noise))
    assert choose_partition_counts(np.array([0, 3, 6, 9]), loads, 7).tolist() == [3, 2, 2]


PAIR, OBJECT, SUBSCRIPTION = 0.5, 2.0, 3.0


def make_walk(
    columns: int, rows: int, objects: np.ndarray, ranges: np.ndarray, reads: np.ndarray
) -> tuple[Walk, list[set[int]]]:
    """The walk through a small raster, and the boxes that touch each of its positions."""
    x, y = hilbert_walk(columns, rows)
    place = np.empty((rows, columns), dtype=np.int32)
    place[y, x] = np.arange(len(x))
    entry, previous = find_block_entries(ranges, place, x.astype(np.int32), y.astype(np.int32))
    order = np.lexsort((previous, entry))
    touching = [
        {b for b, (x0, y0, x1, y1) in enumerate(ranges) if x0 <= i <= x1 and y0 <= j <= y1} for i, j in zip(x, y)
    ]
    walk = Walk(
        objects.astype(np.float64),
        reads.astype(np.float64),
        np.array([len(boxes) for boxes in touching]),
        np.searchsorted(entry[order], np.arange(len(x) + 1)),
        previous[order],
        Rates(PAIR, OBJECT, SUBSCRIPTION),
    )
    return walk, touching


@st.composite
def walks(draw: st.DrawFn, max_side: int = 8) -> tuple[Walk, list[set[int]]]:
    columns, rows = draw(st.integers(1, max_side)), draw(st.integers(1, max_side))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    boxes = draw(st.integers(0, 12))
    across = np.sort(rng.integers(0, columns, (boxes, 2)), axis=1)
    up = np.sort(rng.integers(0, rows, (boxes, 2)), axis=1)
    ranges = np.column_stack([across[:, 0], up[:, 0], across[:, 1], up[:, 1]]).astype(np.int32)
    return make_walk(columns, rows, rng.integers(0, 9, columns * rows), ranges, rng.integers(0, 20, columns * rows))


def counted(walk: Walk, touching: list[set[int]], start: int, stop: int) -> float:
    objects = walk.objects[start:stop].sum()
    boxes = len(set().union(*touching[start:stop]))
    return float(PAIR * objects * boxes + OBJECT * objects + SUBSCRIPTION * boxes + walk.read_seconds[start:stop].sum())


@examples(100)
@given(walks(), st.data())
def test_load_of_a_run(made: tuple[Walk, list[set[int]]], data: st.DataObject) -> None:
    walk, touching = made
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(touching))] * 2)))
    assert compute_run_load(walk, start, stop) == pytest.approx(counted(walk, touching, start, stop))


@examples(60)
@given(walks(max_side=3), st.integers(1, 5))
def test_greatest_load_is_minimal(made: tuple[Walk, list[set[int]]], runs: int) -> None:
    walk, touching = made
    places = len(touching)
    ends = cut_walk(walk, runs).tolist()
    assert ends[0] == 0
    assert ends[-1] == places
    assert ends == sorted(ends)
    greatest = max(counted(walk, touching, a, b) for a, b in zip(ends, ends[1:]))
    least = min(
        max(counted(walk, touching, a, b) for a, b in zip((0, *inner), (*inner, places)))
        for inner in combinations_with_replacement(range(places + 1), runs - 1)
    )
    assert greatest == pytest.approx(least)


def codes_of(pyramid: Pyramid, node: int) -> set[int]:
    if pyramid.code[node] != MIXED:
        return {int(pyramid.code[node])}
    return set(pyramid.set_codes[pyramid.set_offsets[node] : pyramid.set_offsets[node + 1]].tolist())


@examples(60)
@given(st.integers(1, 37), st.integers(1, 37), st.integers(1, 5), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_a_node_has_the_codes_of_its_cells(columns: int, rows: int, kinds: int, block: int, seed: int) -> None:
    """Blocks of equal codes, some of them with one other cell."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, kinds, (rows // block + 1, columns // block + 1), np.int32)
    raster = np.kron(coarse, np.ones((block, block), np.int32))[:rows, :columns]
    raster[rng.integers(rows), rng.integers(columns)] = rng.integers(kinds)
    pyramid = build_pyramid(raster.ravel(), columns, rows, kinds)
    for level, width in enumerate(pyramid.width.tolist()):
        side = 1 << level
        for place, node in enumerate(range(pyramid.level_start[level], pyramid.level_start[level + 1])):
            y, x = divmod(place, width)
            cells = raster[y * side : (y + 1) * side, x * side : (x + 1) * side]
            assert codes_of(pyramid, node) == set(np.unique(cells).tolist())
    assert pyramid.distinct == len(np.unique(raster))
