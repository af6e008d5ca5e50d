"""Each node of a pyramid has the distinct codes of the cells below it, for rasters of any size."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pststream.kernels.routing.pyramid import MIXED, Pyramid, build_pyramid
from tests.fuzz.cases import examples


def codes_of(pyramid: Pyramid, node: int) -> set[int]:
    if pyramid.code[node] != MIXED:
        return {int(pyramid.code[node])}
    return set(pyramid.set_codes[pyramid.set_offsets[node] : pyramid.set_offsets[node + 1]].tolist())


@examples(60)
@given(st.integers(1, 37), st.integers(1, 37), st.integers(1, 5), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_a_node_has_the_codes_of_its_cells(columns: int, rows: int, kinds: int, block: int, seed: int) -> None:
    """Blocks of equal codes, some of them with one other cell."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, kinds, (rows // block + 1, columns // block + 1), np.int32)
    raster = np.kron(coarse, np.ones((block, block), np.int32))[:rows, :columns]
    raster[rng.integers(rows), rng.integers(columns)] = rng.integers(kinds)
    pyramid = build_pyramid(raster.ravel(), columns, rows, kinds)
    for level, width in enumerate(pyramid.width.tolist()):
        side = 1 << level
        for place, node in enumerate(range(pyramid.level_start[level], pyramid.level_start[level + 1])):
            y, x = divmod(place, width)
            cells = raster[y * side : (y + 1) * side, x * side : (x + 1) * side]
            assert codes_of(pyramid, node) == set(np.unique(cells).tolist())
    assert pyramid.distinct == len(np.unique(raster))
