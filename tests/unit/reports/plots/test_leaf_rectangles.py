"""Rectangles cover a raster once, with few of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pststream.reports.plots.plan_map import cover_with_rectangles


@given(hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.integers(0, 3)))
def test_rectangles_cover_each_cell_once(raster: np.ndarray) -> None:
    cover = cover_with_rectangles(raster)
    covered = np.full(raster.shape, -1)
    for value, left, right, low, high in zip(cover.value, cover.left, cover.right, cover.low, cover.high):
        assert (covered[low:high, left:right] == -1).all()
        covered[low:high, left:right] = value
    assert (covered == raster).all()


def test_a_rectangle_is_one_rectangle() -> None:
    assert len(cover_with_rectangles(np.zeros((512, 512), dtype=np.int64)).value) == 1
