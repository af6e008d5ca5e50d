"""Random rectangles of a small raster, and what a sample has inside of them, by counting."""

import numpy as np
from hypothesis import strategies as st

from pststream.planning.load_model import CostModel
from pststream.planning.planners.rectangle_cuts import Rectangle
from pststream.planning.raster import compute_cell_ranges
from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import WorkloadSample
from tests.plans import unpack

GRID = DispatchGrid(-10.0, 30.0, 30.0, 60.0, 7, 5)
COST = CostModel(1.0, 2.0, 3.0, 0.5, 0.25)


@st.composite
def rectangles(draw: st.DrawFn) -> Rectangle:
    (x0, x1), (y0, y1) = (sorted(draw(st.tuples(*[st.integers(0, n - 1)] * 2))) for n in (7, 5))
    return Rectangle(x0, y0, x1, y1)


def inside(sample: WorkloadSample, node: Rectangle) -> tuple[list[set[int]], list[set[int]]]:
    """Live terms of each object, and posting terms of each box, in a rectangle of cells."""
    live = set(sample.post_terms.tolist())
    x, y = GRID.cell_x(sample.lon), GRID.cell_y(sample.lat)
    objects = [
        set(terms) & live
        for terms, i, j in zip(unpack(sample.term_offsets, sample.terms), x, y)
        if node.x0 <= i <= node.x1 and node.y0 <= j <= node.y1
    ]
    boxes = [
        set(terms)
        for terms, (x0, y0, x1, y1) in zip(
            unpack(sample.post_offsets, sample.post_terms), compute_cell_ranges(GRID, sample.boxes)
        )
        if x0 <= node.x1 and x1 >= node.x0 and y0 <= node.y1 and y1 >= node.y0
    ]
    return objects, boxes


def reads_inside(sample: WorkloadSample, node: Rectangle) -> list[tuple[int, int]]:
    """Each occurrence of a term in an object of a rectangle of cells, and the postings that it reads."""
    x, y = GRID.cell_x(sample.lon), GRID.cell_y(sample.lat)
    here = (x >= node.x0) & (x <= node.x1) & (y >= node.y0) & (y <= node.y1)
    kept = np.repeat(here, np.diff(sample.term_offsets))
    return list(zip(sample.terms[kept].tolist(), sample.reads[kept].tolist()))
