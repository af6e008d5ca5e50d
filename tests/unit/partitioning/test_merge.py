"""Sharing parts out against all ways to do so; merging against its rules, and levelling against itself."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.kernels.planning.assign_nodes import assign_nodes, level_workers
from pststream.kernels.planning.partition_counts import choose_partition_counts

RATES = (0.5, 2.0, 3.0)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_no_sharing_out_is_better(nodes: int, spare: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    most = rng.integers(1, spare + 2, nodes)
    start = np.concatenate([[0], np.cumsum(most)])
    loads = rng.integers(0, 50, start[-1]).astype(np.float64)
    given_out = choose_partition_counts(start, loads, nodes + spare)
    ways = [way for way in product(*(range(1, k + 1) for k in most)) if sum(way) <= nodes + spare]
    sums = [sum(loads[start[i] + k - 1] for i, k in enumerate(way)) for way in ways]
    assert tuple(given_out) in ways
    assert sum(loads[start[i] + k - 1] for i, k in enumerate(given_out)) == min(sums)


def test_all_parts_are_given_out_where_that_is_as_good() -> None:
    assert choose_partition_counts(np.array([0, 3, 6]), np.zeros(6), 4).sum() == 4


def twin(objects: np.ndarray, subscriptions: np.ndarray, reads: np.ndarray, order: np.ndarray, parts: int) -> list[int]:
    """The paper's MergeNodesIntoPartitions, word by word."""

    def load(nodes: list[int]) -> float:
        o, s = sum(objects[n] for n in nodes), sum(subscriptions[n] for n in nodes)
        return float(RATES[0] * o * s + RATES[1] * o + RATES[2] * s + sum(reads[n] for n in nodes))

    def factor(held: list[list[int]]) -> float:
        loads = [load(nodes) for nodes in held]
        return max(loads) / min(loads) if min(loads) > 0 else np.inf

    held: list[list[int]] = [[] for _ in range(parts)]
    place = [0] * len(order)
    for node in order:
        growth = [(round(load([*nodes, node]) - load(nodes), 6), load(nodes), i) for i, nodes in enumerate(held)]
        best = min(growth)[2]
        idlest = min((load(nodes), i) for i, nodes in enumerate(held))[1]
        after = [[*nodes, node] if i == best else nodes for i, nodes in enumerate(held)]
        if factor(after) > factor(held) * (1 + 1e-12):
            best = idlest
        held[best].append(node)
        place[node] = best
    return place


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_merges_as_the_paper_says(nodes: int, parts: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    objects, subscriptions, reads = rng.integers(1, 40, (3, nodes)).astype(np.float64)
    own = RATES[0] * objects * subscriptions + RATES[1] * objects + RATES[2] * subscriptions + reads
    order = np.argsort(-own, kind="stable")
    place, load = assign_nodes(order, objects, subscriptions, reads, RATES, parts)
    assert place.tolist() == twin(objects, subscriptions, reads, order, parts)
    o, s, r = (np.bincount(place, figure, parts) for figure in (objects, subscriptions, reads))
    assert load == pytest.approx(RATES[0] * o * s + RATES[1] * o + RATES[2] * s + r)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_levelling_leaves_no_single_step_that_helps(nodes: int, parts: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    objects, subscriptions, reads = rng.integers(0, 40, (3, nodes)).astype(np.float64)
    place = rng.integers(0, parts, nodes)

    def loads(where: np.ndarray) -> np.ndarray:
        o, s, r = (np.bincount(where, figure, parts) for figure in (objects, subscriptions, reads))
        return np.asarray(RATES[0] * o * s + RATES[1] * o + RATES[2] * s + r)

    before = loads(place).max()
    level_workers(place, objects, subscriptions, reads, RATES, parts, 1000)
    after = loads(place)
    assert after.max() <= before * (1 + 1e-9)
    top = int(np.argmax(after))
    for node, part in product(np.flatnonzero(place == top), range(parts)):
        moved = place.copy()
        moved[node] = part
        if part != top:
            assert max(loads(moved)[[top, part]]) >= after[top] * (1 - 1e-6)


def test_nodes_without_any_load_do_not_matter() -> None:
    place, load = assign_nodes(np.arange(5), np.zeros(5), np.zeros(5), np.zeros(5), RATES, 2)
    assert len(place) == 5
    assert load.tolist() == [0, 0]
