"""What several searches of the same objects found, as one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pststream.matching.matcher import Found, pairs_of

KEYS = st.lists(st.integers(0, 99), max_size=4)


def found(keys: list[list[int]]) -> Found:
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in keys])]).astype(np.int64)
    return Found(offsets, np.array([key for part in keys for key in part], np.int64), np.zeros(1), np.zeros(1))


@given(st.lists(st.tuples(KEYS, KEYS), max_size=5))
def test_each_object_has_the_keys_of_both(made):
    offsets, keys = pairs_of([found([one for one, _ in made]), found([other for _, other in made])])
    told = [keys[start:stop].tolist() for start, stop in zip(offsets, offsets[1:])]
    assert told == [one + other for one, other in made]
