"""Values are found among sorted keys as a dictionary finds them."""

import random

import numpy as np

from pststream.base.arrays import distinct_values, find_among, is_among, look_up


def test_values_are_found_as_in_a_dictionary() -> None:
    rnd = random.Random(1)
    for _ in range(200):
        numbers = {key: rnd.randrange(100) for key in sorted(rnd.sample(range(30), rnd.randrange(6)))}
        keys = np.array(list(numbers), np.int64)
        values = [rnd.randrange(-1, 31) for _ in range(rnd.randrange(8))]
        place, is_key = find_among(np.array(values, np.int64), keys)
        assert is_key.tolist() == [value in numbers for value in values]
        assert [int(keys[at]) for at in place[is_key]] == [value for value in values if value in numbers]
        assert is_among(np.array(values, np.int64), keys).tolist() == is_key.tolist()
        found = look_up(np.array(values, np.int64), keys, np.array(list(numbers.values()), np.int64), -7)
        assert found.tolist() == [numbers.get(value, -7) for value in values]


def test_distinct_values_are_those_of_a_set() -> None:
    rnd = random.Random(2)
    for _ in range(100):
        values = [rnd.randrange(-4, 4) for _ in range(rnd.randrange(9))]
        assert distinct_values(np.array(values, np.int64)).tolist() == sorted(set(values))
    assert distinct_values(np.array([[2.5, -1.0], [2.5, 0.0]])).tolist() == [-1.0, 0.0, 2.5]
