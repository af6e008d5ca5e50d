"""The curve visits each block once; on a square of a power of two it never jumps."""

import numpy as np
import pytest

from pststream.planning.raster import hilbert_walk


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (2, 2), (64, 64), (1, 5), (7, 3), (3, 33)])
def test_visits_each_block_once(columns: int, rows: int) -> None:
    x, y = hilbert_walk(columns, rows)
    assert sorted(zip(x.tolist(), y.tolist())) == [(i, j) for i in range(columns) for j in range(rows)]


@pytest.mark.parametrize("side", [1, 2, 4, 32, 64])
def test_never_jumps(side: int) -> None:
    x, y = hilbert_walk(side, side)
    assert set((np.abs(np.diff(x)) + np.abs(np.diff(y))).tolist()) <= {1}
