"""Phase one of hybrid partitioning: regions where objects and subscriptions speak alike, and where they do not."""

from dataclasses import dataclass

import numpy as np

from pststream.cost.region_counts import RegionCounts
from pststream.kernels.planning.similarity import SIDES, pieces_of_nodes, side_similarities
from pststream.kernels.routing.pyramid import build_pyramid
from pststream.partitioning.rectangle_cuts import Rectangle
from pststream.samples.sorted_sample import Postings

CONSISTENT = 0.02
"""Similarities that differ by less are equal (the paper's `is about 0`)."""

LEAST = 1000
"""Objects, and boxes, that each side of a split must have: in a smaller sample similarity falls by chance alone."""


@dataclass(frozen=True)
class Region:
    """A node that phase one has decided on; `by_text` tells N_t from N_s."""

    rectangle: Rectangle
    by_text: bool


def similar_regions(postings: Postings, counts: RegionCounts, delta: float, most: int) -> list[Region]:
    """The nodes N_s and N_t of the whole raster, low sides first.

    A node whose similarity is `delta` or more goes to N_s. Any other is split at the median of its objects, in the
    direction of the smaller alpha, the smaller similarity of the two sides; it goes to N_t instead if alpha is about
    its own similarity. Nodes are looked at level by level, so that a level costs one pass over the sample; `most` nodes
    end it, and what is undecided then is consistent.

    Source: PS2Stream section IV-B, Algorithm 1, lines 1-12. Departures: similarity counts the terms that subscriptions
    are posted under, and of the objects' terms those that are live, as no others bring load; a node with a side that is
    too small to judge (`LEAST`) is consistent.
    """
    whole = Rectangle(0, 0, counts.columns - 1, counts.rows - 1)
    by_term = postings.by_term()
    open_nodes = [whole]
    similarity = _similarities(open_nodes, np.array([[whole.x1, whole.y1]]), postings, by_term)[:, 0]
    decided: list[Region] = []
    while open_nodes:
        decided += [Region(node, False) for node, alike in zip(open_nodes, similarity) if alike >= delta]
        unlike = [(node, alike) for node, alike in zip(open_nodes, similarity) if alike < delta]
        if not unlike:
            break
        nodes = [node for node, _ in unlike]
        cuts = np.array([_medians(node, counts) for node in nodes])
        sides = _similarities(nodes, cuts, postings, by_term)
        open_nodes, similarity = [], np.empty(0)
        for done, ((node, alike), cut, side) in enumerate(zip(unlike, cuts, sides)):
            halves, alphas = _split(node, cut, side, counts)
            room = len(decided) + len(open_nodes) + len(unlike) - done < most
            if halves and room and abs(alphas.min() - alike) > CONSISTENT:
                open_nodes += halves
                similarity = np.append(similarity, alphas)
            else:
                decided.append(Region(node, True))
    return sorted(decided, key=lambda region: (region.rectangle.y0, region.rectangle.x0))


def _medians(node: Rectangle, counts: RegionCounts) -> tuple[int, int]:
    """Last column of the west half and last row of the south half, by objects; from the tables."""
    columns = counts.objects(node.x0, node.y0, np.arange(node.x0, node.x1 + 1), node.y1)
    rows = counts.objects(node.x0, node.y0, node.x1, np.arange(node.y0, node.y1 + 1))
    return node.x0 + _middle(columns), node.y0 + _middle(rows)


def _middle(sums: np.ndarray) -> int:
    """The first place with at least half of the last sum, but never the last place of several."""
    return int(min(np.searchsorted(2 * sums, sums[-1]), max(len(sums) - 2, 0)))


def _similarities(
    nodes: list[Rectangle], cuts: np.ndarray, postings: Postings, by_term: tuple[tuple, tuple]
) -> np.ndarray:
    """Similarity on the west, east, south and north sides of each node's cuts: float64[nodes, SIDES]."""
    grid = postings.grid
    raster = np.full((grid.rows, grid.columns), len(nodes), dtype=np.int32)
    for i, (x0, y0, x1, y1) in enumerate(nodes):
        raster[y0 : y1 + 1, x0 : x1 + 1] = i
    pyramid = build_pyramid(raster.ravel(), grid.columns, grid.rows, len(nodes) + 1)
    touched = pieces_of_nodes(postings.ranges, pyramid, len(nodes))
    cells = (postings.column, postings.row, raster[postings.row, postings.column])
    found = side_similarities(*by_term, cells, postings.ranges, touched, cuts.astype(np.int64))
    return np.asarray(found).reshape(len(nodes), SIDES)


def _split(
    node: Rectangle, cut: np.ndarray, side: np.ndarray, counts: RegionCounts
) -> tuple[list[Rectangle], np.ndarray]:
    """The halves in the direction of the smaller alpha, and their similarities; none if no direction can be judged."""
    x, y = int(cut[0]), int(cut[1])
    ways = []
    if x < node.x1:
        ways.append(([Rectangle(node.x0, node.y0, x, node.y1), Rectangle(x + 1, *node[1:])], side[:2]))
    if y < node.y1:
        ways.append(([Rectangle(node.x0, node.y0, node.x1, y), Rectangle(node.x0, y + 1, *node[2:])], side[2:]))
    ways = [way for way in ways if all(_enough(half, counts) for half in way[0])]
    return min(ways, key=lambda way: float(way[1].min())) if ways else ([], np.empty(0))


def _enough(node: Rectangle, counts: RegionCounts) -> bool:
    return min(int(counts.objects(*node)), int(counts.subscriptions(*node))) >= LEAST
