"""Assigning nodes to workers against the rules of the paper, and levelling against all single steps."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.kernels.planning.assign_nodes import Rates, assign_nodes, level_workers
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
