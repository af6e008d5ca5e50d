"""Selection of cells against all subsets, on random and adversarial cells."""

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.base.errors import UsageError
from pststream.planning.balancing import cell_selection
from pststream.planning.balancing.cell_selection import METHODS, select_cells

CELLS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8)


def least_cost(loads: np.ndarray, sizes: np.ndarray, wanted: float) -> int:
    """Try every subset."""
    places = range(len(loads))
    subsets = chain.from_iterable(combinations(places, k) for k in range(len(loads) + 1))
    return min(int(sizes[list(s)].sum()) for s in subsets if loads[list(s)].sum() >= wanted)


@settings(max_examples=300, deadline=None)
@given(CELLS, st.floats(0.01, 1.0))
def test_every_method_moves_enough_and_dp_moves_least(cells, share):
    loads, sizes = (np.array(column) for column in zip(*cells))
    wanted = share * loads.sum()
    if wanted == 0.0:
        return
    least = least_cost(loads, sizes, wanted)
    for method in METHODS:
        chosen = select_cells(method, loads.astype(float), sizes, wanted)
        assert (np.diff(chosen) > 0).all() and loads[chosen].sum() >= wanted
        cost = int(sizes[chosen].sum())
        assert cost >= least
        if method == "dp":
            assert cost == least
        if method == "gr":
            assert cost <= 2 * least


def select_as_the_paper(method: str, cells: list[tuple[int, int]], wanted: float) -> list[int]:
    """GR as in section V-A, then without the cells that the others do not need, the largest first; SI; and RA."""
    loaded = [i for i, (load, _) in enumerate(cells) if load]
    if method in ("si", "ra"):
        shuffled = [loaded[at] for at in np.random.default_rng([0, 3]).permutation(len(loaded))]
        order = shuffled if method == "ra" else sorted(loaded, key=lambda i: -cells[i][1])
        enough = next(k for k in range(len(order) + 1) if sum(cells[i][0] for i in order[:k]) >= wanted)
        return sorted(order[:enough])
    included, best = list[int](), list[int]()
    for cell in sorted(loaded, key=lambda i: cells[i][1] / cells[i][0]):
        candidate = [*included, cell]
        if sum(cells[i][0] for i in candidate) < wanted:
            included = candidate
        elif not best or sum(cells[i][1] for i in candidate) < sum(cells[i][1] for i in best):
            best = candidate
    for cell in sorted(best, key=lambda i: -cells[i][1]):
        if sum(cells[i][0] for i in best) - cells[cell][0] >= wanted:
            best.remove(cell)
    return sorted(best)


@settings(max_examples=300, deadline=None)
@given(CELLS, st.floats(0.01, 0.99), st.sampled_from(("gr", "si", "ra")))
def test_selects_the_cells_of_the_paper(cells, share, method):
    wanted = share * sum(load for load, _ in cells)
    if wanted == 0.0:
        return
    loads, sizes = (np.array(column) for column in zip(*cells))
    chosen = select_cells(method, loads.astype(float), sizes, wanted)
    assert chosen.tolist() == select_as_the_paper(method, cells, wanted)


def test_greedy_drops_cells_if_the_last_one_is_enough():
    loads, sizes = np.array([99.0, 100.0]), np.array([98, 100])
    assert select_cells("gr", loads, sizes, 100.0).tolist() == [1]


def test_more_load_than_the_cells_have_is_an_error():
    loads, sizes = np.array([1.0, 2.0]), np.array([5, 5])
    with pytest.raises(UsageError, match="take more cells"):
        select_cells("gr", loads, sizes, 3.5)
    with pytest.raises(UsageError, match="one of: gr, dp, si, ra"):
        select_cells("best", loads, sizes, 1.0)
    assert select_cells("dp", loads, sizes, 0.0).tolist() == []


def test_dp_is_bounded_in_memory(monkeypatch):
    """Coarser steps if the table would be too large, and an error if these would be too inexact."""
    rng = np.random.default_rng(1)
    loads, sizes = rng.random(60), rng.integers(900_000, 1_000_000, 60)
    exact = sizes[select_cells("dp", loads, sizes, 20.0)].sum()
    monkeypatch.setattr(cell_selection, "MAX_BITS", 1 << 20)
    coarse = select_cells("dp", loads, sizes, 20.0)
    assert loads[coarse].sum() >= 20.0 and exact <= sizes[coarse].sum() <= 1.01 * exact
    monkeypatch.setattr(cell_selection, "MAX_BITS", 1 << 10)
    with pytest.raises(UsageError, match="use gr"):
        select_cells("dp", loads, sizes, 20.0)


def test_the_seed_determines_the_random_choice():
    rng = np.random.default_rng(2)
    loads, sizes = rng.random(100), rng.integers(1, 100, 100)
    one, two, other = (select_cells("ra", loads, sizes, 20.0, seed) for seed in (1, 1, 2))
    assert one.tolist() == two.tolist() != other.tolist()
