"""Assigning nodes to workers against the rules of the paper, and levelling against all single steps."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.kernels.planning.assign_nodes import assign_nodes, level_workers

RATES = (0.5, 2.0, 3.0)


def assign_slowly(
    objects: np.ndarray, subscriptions: np.ndarray, reads: np.ndarray, order: np.ndarray, workers: int
) -> list[int]:
    """The paper's MergeNodesIntoPartitions, step by step."""

    def load(nodes: list[int]) -> float:
        o, s = sum(objects[n] for n in nodes), sum(subscriptions[n] for n in nodes)
        return float(RATES[0] * o * s + RATES[1] * o + RATES[2] * s + sum(reads[n] for n in nodes))

    def factor(nodes_of: list[list[int]]) -> float:
        loads = [load(nodes) for nodes in nodes_of]
        return max(loads) / min(loads) if min(loads) > 0 else np.inf

    nodes_of: list[list[int]] = [[] for _ in range(workers)]
    node_worker = [0] * len(order)
    for node in order:
        growth = [(round(load([*nodes, node]) - load(nodes), 6), load(nodes), i) for i, nodes in enumerate(nodes_of)]
        best = min(growth)[2]
        idlest = min((load(nodes), i) for i, nodes in enumerate(nodes_of))[1]
        after = [[*nodes, node] if i == best else nodes for i, nodes in enumerate(nodes_of)]
        if factor(after) > factor(nodes_of) * (1 + 1e-12):
            best = idlest
        nodes_of[best].append(node)
        node_worker[node] = best
    return node_worker


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_assigns_as_the_paper_does(nodes: int, workers: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    objects, subscriptions, reads = rng.integers(1, 40, (3, nodes)).astype(np.float64)
    own = RATES[0] * objects * subscriptions + RATES[1] * objects + RATES[2] * subscriptions + reads
    order = np.argsort(-own, kind="stable")
    node_worker, load = assign_nodes(order, objects, subscriptions, reads, RATES, workers)
    assert node_worker.tolist() == assign_slowly(objects, subscriptions, reads, order, workers)
    o, s, r = (np.bincount(node_worker, figure, workers) for figure in (objects, subscriptions, reads))
    assert load == pytest.approx(RATES[0] * o * s + RATES[1] * o + RATES[2] * s + r)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_levelling_leaves_no_single_step_that_helps(nodes: int, workers: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    objects, subscriptions, reads = rng.integers(0, 40, (3, nodes)).astype(np.float64)
    node_worker = rng.integers(0, workers, nodes)

    def loads(node_worker: np.ndarray) -> np.ndarray:
        o, s, r = (np.bincount(node_worker, figure, workers) for figure in (objects, subscriptions, reads))
        return np.asarray(RATES[0] * o * s + RATES[1] * o + RATES[2] * s + r)

    before = loads(node_worker).max()
    level_workers(node_worker, objects, subscriptions, reads, RATES, workers, 1000)
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
