"""Cutting the walk: the load of a run against counting, and the cuts against all cuts there are."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.kernels.planning.assign_nodes import Rates
from pststream.kernels.planning.cut_curve import Walk, compute_run_load, cut_walk, find_block_entries
from pststream.planning.raster import hilbert_walk
from tests.fuzz.cases import examples

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


def test_a_heavy_block_does_not_starve_the_others() -> None:
    objects = np.ones(64)
    objects[30] = 1000
    walk, _ = make_walk(8, 8, objects, np.empty((0, 4), dtype=np.int32), np.zeros(64))
    loads = np.diff(np.append(0, np.cumsum(objects))[cut_walk(walk, 8)])
    assert sorted(loads.tolist())[:7] == pytest.approx([9] * 7, abs=2)
