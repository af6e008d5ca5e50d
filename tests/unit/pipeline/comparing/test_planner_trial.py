"""Trials of the same plan share their rounds, whatever their number and order."""

import itertools

import numpy as np
import pytest

from pststream.pipeline.replan.planner_trial import share_rounds


@pytest.mark.parametrize("order", itertools.permutations(range(4)))
def test_rounds_of_the_same_plan_count_for_each_of_its_trials(order: tuple[int, ...]) -> None:
    made = ["grid", "kd_tree", "grid", "grid"]
    seconds = [[1.0, 2.0], [9.0], [3.0], []]
    rounds = [[np.array([one]) for one in of_trial] for of_trial in seconds]
    share_rounds((made[trial], rounds[trial]) for trial in order)
    shared = [sorted(float(one[0]) for one in of_trial) for of_trial in rounds]
    assert shared == [[1.0, 2.0, 3.0], [9.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]
