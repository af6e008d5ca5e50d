"""A view has bounds on the earth and a bounded shape, whatever its points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.reports.plots.base_map import WIDTH, fit_view


@given(
    st.lists(st.tuples(st.floats(-180, 180), st.floats(-90, 90)), max_size=8),
)
def test_a_view_has_a_shape(points: list[tuple[float, float]]) -> None:
    array = np.array(points).reshape(-1, 2)
    view = fit_view(array[:, 0], array[:, 1])
    assert -180 <= view.west < view.east <= 180 and -90 <= view.south < view.north <= 90
    assert 200 <= view.height <= 1000
    assert view.x(view.east) == pytest.approx(WIDTH) and view.y(view.south) == pytest.approx(view.height)
