"""Objects of each unit, against sets."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.kernels.planning.count_loads import count_units


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(-1, 4), max_size=6), max_size=8))
def test_an_object_counts_once_for_each_of_its_units(units_of_objects):
    offsets = np.cumsum([0, *map(len, units_of_objects)]).astype(np.int64)
    units = np.array([unit for units in units_of_objects for unit in units], np.int32)
    counts = np.full(5, 10, np.int64)
    count_units(offsets, units, counts)
    assert counts.tolist() == [10 + sum(unit in set(units) for units in units_of_objects) for unit in range(5)]
