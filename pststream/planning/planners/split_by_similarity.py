"""Phase one of the hybrid planner: split space into regions to partition by space and regions to partition by text.

A region is partitioned by space if the terms of its objects and of its subscriptions are similar.
"""

from dataclasses import dataclass

import numpy as np

from pststream.kernels.planning.term_runs import SIDES, compute_side_similarities, find_nodes_of_pieces
from pststream.kernels.routing.pyramid import build_pyramid
from pststream.planning.live_terms import SortedSample
from pststream.planning.planners.rectangle_cuts import Rectangle
from pststream.planning.region_counts import RegionCounts

CONSISTENT = 0.02
"""Difference below which two similarities are taken as equal (the paper's `is about 0`)."""

MIN_ROWS = 1000
"""Minimum number of objects and of boxes on each side of a split: in smaller samples similarity falls by chance."""


@dataclass(frozen=True)
class PlanningRegion:
    """A region of the result; `by_text`: it belongs to N_t, to be partitioned by text; otherwise to N_s."""

    rectangle: Rectangle
    by_text: bool


def split_by_similarity(
    sample: SortedSample, counts: RegionCounts, delta: float, max_regions: int
) -> list[PlanningRegion]:
    """Split the whole raster into the nodes N_s and N_t, low sides first.

    A node whose similarity is `delta` or more belongs to N_s. For any other node, alpha of a direction is the smaller
    similarity of the two sides of a cut at the median of its objects. The node is split in the direction of the smaller
    alpha; if this alpha is about the similarity of the node, the node belongs to N_t instead. Nodes are split level by
    level, so that a level costs one pass over the sample. Once there are `max_regions` nodes, the remaining ones go to
    N_t.

    Source: PS2Stream section IV-B, Algorithm 1, lines 1-12. Departures: similarity counts the terms that subscriptions
    are posted under, and the live terms of objects, as no others bring load; a node with a side that is too small
    (`MIN_ROWS`) is not split; the number of nodes is bounded.
    """
    whole = Rectangle(0, 0, counts.columns - 1, counts.rows - 1)
    by_term = sample.by_term()
    open_nodes = [whole]
    similarity = _similarities(open_nodes, np.array([[whole.x1, whole.y1]]), sample, by_term)[:, 0]
    decided: list[PlanningRegion] = []
    while open_nodes:
        # Similar nodes are finished.
        decided += [PlanningRegion(node, False) for node, alike in zip(open_nodes, similarity) if alike >= delta]
        unlike = [(node, alike) for node, alike in zip(open_nodes, similarity) if alike < delta]
        if not unlike:
            break
        nodes = [node for node, _ in unlike]
        # Compute the similarities on both sides of the median cuts of the others.
        cuts = np.array([_medians(node, counts) for node in nodes])
        sides = _similarities(nodes, cuts, sample, by_term)
        # Split each of them, or finish it if no split helps.
        open_nodes, similarity = [], np.empty(0)
        for done, ((node, alike), cut, side) in enumerate(zip(unlike, cuts, sides)):
            halves, alphas = _split(node, cut, side, counts)
            has_room = len(decided) + len(open_nodes) + len(unlike) - done < max_regions
            if halves and has_room and abs(alphas.min() - alike) > CONSISTENT:
                open_nodes += halves
                similarity = np.append(similarity, alphas)
            else:
                decided.append(PlanningRegion(node, True))
    return sorted(decided, key=lambda region: (region.rectangle.y0, region.rectangle.x0))


def _medians(node: Rectangle, counts: RegionCounts) -> tuple[int, int]:
    """Return the last column of the west half and the last row of the south half, by objects."""
    columns = counts.objects(node.x0, node.y0, np.arange(node.x0, node.x1 + 1), node.y1)
    rows = counts.objects(node.x0, node.y0, node.x1, np.arange(node.y0, node.y1 + 1))
    return node.x0 + _middle(columns), node.y0 + _middle(rows)


def _middle(sums: np.ndarray) -> int:
    """Return the first index with at least half of the last sum, but never the last index of several."""
    return int(min(np.searchsorted(2 * sums, sums[-1]), max(len(sums) - 2, 0)))


def _similarities(
    nodes: list[Rectangle], cuts: np.ndarray, sample: SortedSample, by_term: tuple[tuple, tuple]
) -> np.ndarray:
    """Compute the similarity on the west, east, south and north sides of the cuts: float64[nodes, SIDES]."""
    grid = sample.grid
    raster = np.full((grid.rows, grid.columns), len(nodes), dtype=np.int32)
    for i, (x0, y0, x1, y1) in enumerate(nodes):
        raster[y0 : y1 + 1, x0 : x1 + 1] = i
    pyramid = build_pyramid(raster.ravel(), grid.columns, grid.rows, len(nodes) + 1)
    touched = find_nodes_of_pieces(sample.ranges, pyramid, len(nodes))
    cells = (sample.column, sample.row, raster[sample.row, sample.column])
    similarity = compute_side_similarities(*by_term, cells, sample.ranges, touched, cuts.astype(np.int64))
    return np.asarray(similarity).reshape(len(nodes), SIDES)


def _split(
    node: Rectangle, cut: np.ndarray, side: np.ndarray, counts: RegionCounts
) -> tuple[list[Rectangle], np.ndarray]:
    """Return the halves in the direction of the smaller alpha, and their similarities; none if all are too small."""
    x, y = int(cut[0]), int(cut[1])
    ways = []
    if x < node.x1:
        ways.append(([Rectangle(node.x0, node.y0, x, node.y1), Rectangle(x + 1, *node[1:])], side[:2]))
    if y < node.y1:
        ways.append(([Rectangle(node.x0, node.y0, node.x1, y), Rectangle(node.x0, y + 1, *node[2:])], side[2:]))
    ways = [way for way in ways if all(_enough(half, counts) for half in way[0])]
    return min(ways, key=lambda way: float(way[1].min())) if ways else ([], np.empty(0))


def _enough(node: Rectangle, counts: RegionCounts) -> bool:
    """Return whether a node has enough objects and boxes to compute a similarity."""
    return min(int(counts.objects(*node)), int(counts.subscriptions(*node))) >= MIN_ROWS
