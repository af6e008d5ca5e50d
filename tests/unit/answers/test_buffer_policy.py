"""The number of entries that buffers keep, and the policies that the benchmark compares it with: Skype's model."""

import math
import random

import numpy as np
import pytest

from benchmarks.support.answers.buffer_policies import POLICIES, cheapest_kept, choose_kept, cost, trim_evaluations
from pststream.answers.bucket_file import spread_kept
from pststream.answers.contract import Asked
from tests.oracles.buffer_walk import updates_until_dry
from tests.unit.answers.worlds import to_values


@pytest.mark.parametrize(("kept", "promised"), [(20, 0.95), (22, 0.31), (25, 0.15), (30, 0.08), (40, 0.04)])
def test_the_model_promises_the_evaluations_of_the_paper(kept: int, promised: float) -> None:
    """Evaluations while as many messages as the window has arrive, and as many expire."""
    assert round(2 * kept / updates_until_dry(20, kept), 2) == promised


@pytest.mark.parametrize(("k", "kept"), [(1, 1), (1, 3), (5, 5), (20, 31)])
def test_the_walk_is_equation_12(k: int, kept: int) -> None:
    first = 2 * (kept - k + 1) * kept
    second = (kept - k + 1) * (kept - k + 2)
    assert updates_until_dry(k, kept) == pytest.approx(first + second)


@pytest.mark.parametrize("arrivals", [0.3, 0.5, 0.6])
def test_the_walk_is_what_a_simulation_finds(arrivals: float) -> None:
    rng, steps, runs = random.Random(1), 0, 3_000
    for _ in range(runs):
        size = 5
        while size >= 3:
            rises = rng.random() < arrivals
            size += (1 if rises else -1) if size < 10 else (0 if rises else -1)
            steps += 1
    assert steps / runs == pytest.approx(updates_until_dry(3, 5, arrivals), rel=0.1)


def test_the_cheapest_number_is_a_minimum_and_grows_with_the_cost_of_an_evaluation() -> None:
    numbers = [cheapest_kept(20, evaluation) for evaluation in (0, 1e3, 1e5, 1e7)]
    assert numbers == sorted(numbers) and numbers[0] == 20 and numbers[1] < numbers[2] and numbers[-1] == 60
    for evaluation in (1e3, 1e4):
        below, least, above = cost(20, cheapest_kept(20, evaluation) + np.arange(-1, 2), evaluation)
        assert least < min(below, above)


@pytest.mark.parametrize(("k", "evaluation"), [(1, 10.0), (7, 900.0), (20, 4_000.0)])
def test_the_cheapest_number_is_that_of_the_walk(k: int, evaluation: float) -> None:
    def cost_by_walk(kept: int) -> float:
        return kept * k * math.log(kept / k) + evaluation * kept / updates_until_dry(k, kept)

    assert cheapest_kept(k, evaluation) == min(range(k, 3 * k + 1), key=cost_by_walk)


def test_numbers_are_spread_by_the_key() -> None:
    keys = (np.int64(7) << 32) + np.arange(10_000)
    k, kept = np.full(10_000, 20, np.int32), np.full(10_000, 30, np.int32)
    numbers = spread_kept(keys, k, kept)
    assert spread_kept(keys[::-1], k, kept)[::-1].tolist() == numbers.tolist()
    assert (numbers.min(), numbers.max()) == (24, 36) and abs(numbers.mean() - 30) < 0.1
    assert np.bincount(numbers)[25:36].min() > 600
    # Neighbours are not alike.
    assert np.abs(np.diff(numbers)).mean() > 3


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_keeps_fewer_than_k(policy: str) -> None:
    k = np.array([1, 20, 90, 90], np.int32)
    kept = choose_kept(policy, np.arange(4), k, np.full(4, 30, np.int32), np.array([1.0, 1e4, 1e4, 1e6]))
    assert kept.dtype == np.int32 and (kept >= k).all()


def test_an_unknown_policy_is_refused() -> None:
    one = np.ones(1, np.int32)
    with pytest.raises(ValueError, match="'best' is none of the policies threshold, cskyband, skyband, kmax"):
        choose_kept("best", one, one, one, 1.0)


def test_skyband_keeps_scores_near_the_k_th() -> None:
    keys = np.array([3, 5, 7, 9])
    asked = Asked(keys, np.full(4, 2, np.int32), np.full(4, 4, np.int32))
    scores = {3: [0.9, 0.8, 0.77, 0.5], 5: [0.9, 0.8, 0.79], 7: [], 9: [0.5]}
    rows = [(key, 10 + n, n, -score) for key, all_scores in scores.items() for n, score in enumerate(all_scores)]
    random.Random(2).shuffle(rows)
    trimmed, answers = trim_evaluations(asked, to_values(rows))
    assert trimmed.kept.tolist() == [3, 4, 4, 4]
    assert answers.subscription.tolist() == [3, 3, 3, 5, 5, 5, 9] and answers.object.tolist()[:3] == [10, 11, 12]


def test_skyband_keeps_distances_near_the_k_th() -> None:
    asked = Asked(np.array([3]), np.full(1, 2, np.int32), np.full(1, 5, np.int32))
    distances = [0.0, 95.0, 99.0, 100.0, 101.0]
    trimmed, answers = trim_evaluations(asked, to_values([(3, 10 + n, n, one) for n, one in enumerate(distances)]))
    assert trimmed.kept.tolist() == [4] and answers.value.tolist() == distances[:4]
