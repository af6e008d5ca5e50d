"""Quadtree planner: quarter the leaf with the greatest workload until there are `theta` leaves, and divide these among
the workers.
"""

import heapq

from pststream.planning.load_model import CostModel
from pststream.planning.papers.karmarkar_karp import divide_leaves
from pststream.planning.papers.query_statistics import QueryStatistics, collect_query_statistics
from pststream.planning.planners.contract import RASTER_OPTIONS, Options, number_cells, options_and_raster
from pststream.planning.planners.rectangle_cuts import Rectangle
from pststream.plans.plan import PartitionPlan, space_plan
from pststream.plans.planner_sample import WorkloadSample

DEFAULTS = {**RASTER_OPTIONS, "theta": 64}


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan with a leaf and a unit for each leaf of the quadtree; `divide_leaves` assigns them to workers.

    options  columns, rows: of the raster; theta: number of leaves from which on none is quartered

    Source: the baseline Quadtree of SSTD, section 7.1: Algorithm 1 with splits by space alone, and its workloads
    (`query_statistics`, which names the departures). Departures: quarters are whole raster cells, so a node of one
    column or row has two of them, and a node of one cell stays; equal workloads are split in the order in which they
    were made. The constants of the cost model are not used.
    """
    chosen, grid = options_and_raster("quadtree", sample, options, DEFAULTS)
    leaves = grow_quadtree(collect_query_statistics(sample, grid), chosen["theta"])
    rectangles = [rectangle for rectangle, _ in leaves]
    unit_worker = divide_leaves([workload for _, workload in leaves], rectangles, workers)
    return space_plan("quadtree", grid, number_cells(grid, rectangles), unit_worker, workers, chosen)


def grow_quadtree(statistics: QueryStatistics, theta: int) -> list[tuple[Rectangle, float]]:
    """Return the leaves of the quadtree and their workloads, in the order in which they were made.

    The number of leaves is `theta` or up to two more, or less if all leaves are single cells.
    """
    grid = statistics.sample.grid
    whole = Rectangle(0, 0, grid.columns - 1, grid.rows - 1)
    heap = [(-statistics.workload(statistics.whole), 0, whole, statistics.whole)]
    done: list[tuple[Rectangle, float]] = []
    made = 1
    while heap and len(heap) + len(done) < theta:
        negative, _, rectangle, rows = heapq.heappop(heap)
        if rectangle.cells == 1:
            done.append((rectangle, -negative))
            continue
        for part in quarter(rectangle):
            inside = statistics.inside(rows, *part)
            heapq.heappush(heap, (-statistics.workload(inside), made, part, inside))
            made += 1
    return done + [(rectangle, -negative) for negative, _, rectangle, _ in sorted(heap, key=lambda node: node[1])]


def quarter(rectangle: Rectangle) -> list[Rectangle]:
    """Return the quarters of a rectangle of at least two cells, from the south-west; of one column or row two."""
    x0, y0, x1, y1 = rectangle
    x, y = (x0 + x1) // 2, (y0 + y1) // 2
    columns = [(x0, x), (x + 1, x1)] if x1 > x0 else [(x0, x1)]
    rows = [(y0, y), (y + 1, y1)] if y1 > y0 else [(y0, y1)]
    return [Rectangle(west, south, east, north) for south, north in rows for west, east in columns]
