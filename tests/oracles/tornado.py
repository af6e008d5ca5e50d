"""Tornado's cost, start and balancing, written out cell by cell as the paper states them (sections 4.1 to 4.3)."""

from itertools import product

from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import WorkloadSample
from tests.plans import unpack

Cell = tuple[int, int]
Part = tuple[int, int, int, int]
"""First column, first row, last column, last row."""


def cell_checks(sample: WorkloadSample, grid: DispatchGrid) -> dict[Cell, int]:
    """Equation 1: for each object, the subscriptions of its cell that have one of its words."""
    checks = dict.fromkeys(product(range(grid.columns), range(grid.rows)), 0)
    terms, posts = unpack(sample.term_offsets, sample.terms), unpack(sample.post_offsets, sample.post_terms)
    west, south = grid.cell_x(sample.boxes[:, 0]), grid.cell_y(sample.boxes[:, 1])
    east, north = grid.cell_x(sample.boxes[:, 2]), grid.cell_y(sample.boxes[:, 3])
    for x, y, words in zip(grid.cell_x(sample.lon).tolist(), grid.cell_y(sample.lat).tolist(), terms):
        found = {
            int(sample.piece_key[i])
            for i, own in enumerate(posts)
            if west[i] <= x <= east[i] and south[i] <= y <= north[i] and set(words) & set(own)
        }
        checks[x, y] += len(found)
    return checks


def cells_of(part: Part) -> list[Cell]:
    """List the cells of a partition."""
    return list(product(range(part[0], part[2] + 1), range(part[1], part[3] + 1)))


def cost(checks: dict[Cell, float], part: Part) -> float:
    """Equation 2."""
    return sum(checks[cell] for cell in cells_of(part))


def splits(part: Part) -> list[tuple[Part, Part]]:
    """List all vertical splits from the west, then all horizontal ones from the south."""
    x0, y0, x1, y1 = part
    vertical = [((x0, y0, x, y1), (x + 1, y0, x1, y1)) for x in range(x0, x1)]
    return vertical + [((x0, y0, x1, y), (x0, y + 1, x1, y1)) for y in range(y0, y1)]


def start(checks: dict[Cell, float], columns: int, rows: int, evaluators: int) -> list[Part]:
    """Section 4.1, with the departures of `planning/papers/a_grid.py` among equal costs."""
    parts: list[Part] = [(0, 0, columns - 1, rows - 1)]
    while len(parts) < evaluators:
        open_parts = [i for i, part in enumerate(parts) if len(cells_of(part)) > 1]
        if not open_parts:
            break
        top = min(open_parts, key=lambda i: (-cost(checks, parts[i]), -len(cells_of(parts[i])), i))
        ranked = [(*_rank(checks, low, high), low, high) for low, high in splits(parts[top])]
        *_, parts[top], other = min(ranked)
        parts.append(other)
    return parts


def _rank(checks: dict[Cell, float], low: Part, high: Part) -> tuple[float, bool, int]:
    """The cost of the costlier half; whether the shorter side was split; how far from its middle."""
    wide, tall = high[2] - low[0] + 1, high[3] - low[1] + 1
    vertical = low[2] < high[2]
    off = abs((low[2] - low[0]) - (high[2] - high[0])) + abs((low[3] - low[1]) - (high[3] - high[1]))
    return max(cost(checks, low), cost(checks, high)), wide < tall if vertical else tall <= wide, off


def queries_in(boxes: list[Part], part: Part) -> int:
    """Count the boxes (in cells) that overlap a partition."""
    return sum(b[0] <= part[2] and b[2] >= part[0] and b[1] <= part[3] and b[3] >= part[1] for b in boxes)


def union(one: Part, other: Part) -> Part | None:
    """Return two partitions as one if they are a rectangle together."""
    both = (min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3]))
    return both if len(cells_of(both)) == len(cells_of(one)) + len(cells_of(other)) else None


def balanced(
    checks: dict[Cell, float], boxes: list[Part], parts: dict[int, Part], beta: float
) -> tuple[str, dict[int, Part]] | None:
    """Make the best operation on the partitions, as sections 4.2 and 4.3 choose it; None if none gains anything."""
    x = min(parts, key=lambda i: (-cost(checks, parts[i]), i))
    found = [*_split_merges(checks, boxes, parts, beta, x), *_shifts(checks, boxes, parts, beta, x)]
    found += _corners(checks, boxes, parts, beta, x)
    good = [one for one in found if one[0] > one[1]]
    for _, _, _, kind, after in sorted(good, key=lambda one: (-one[0], one[1], one[2])):
        if after is not None:
            return kind, after
    return None


Found = tuple[float, float, tuple[int, ...], str, dict[int, Part] | None]
"""Gain, overhead, the other workers, kind, partitions afterwards (None: the shift has no coordinate that helps)."""


def _split_merges(
    checks: dict[Cell, float], boxes: list[Part], parts: dict[int, Part], beta: float, x: int
) -> list[Found]:
    if not splits(parts[x]):
        return []
    x1, x2 = min(splits(parts[x]), key=lambda two: abs(cost(checks, two[0]) - cost(checks, two[1])))
    if queries_in(boxes, x1) < queries_in(boxes, x2):
        x1, x2 = x2, x1
    found: list[Found] = []
    for i, j in product(parts, parts):
        together = union(parts[i], parts[j]) if i < j and x not in (i, j) else None
        if together is None:
            continue
        y, z = (i, j) if queries_in(boxes, parts[i]) >= queries_in(boxes, parts[j]) else (j, i)
        gain = cost(checks, parts[x]) - max(cost(checks, x1), cost(checks, x2), cost(checks, together))
        overhead = beta * (queries_in(boxes, x2) + queries_in(boxes, parts[z]))
        found.append((gain, overhead, (i, j), "split_merge", {**parts, x: x1, y: together, z: x2}))
    return found


def _shifts(checks: dict[Cell, float], boxes: list[Part], parts: dict[int, Part], beta: float, a: int) -> list[Found]:
    own, found = cost(checks, parts[a]), list[Found]()
    for b in parts:
        whole = union(parts[a], parts[b]) if b != a else None
        gain = (own - cost(checks, parts[b])) / 2
        if whole is None or gain <= 0:
            continue
        options = []
        for low, high in splits(whole):
            for mine, other in ((low, high), (high, low)):
                # A keeps cells of its own alone, B keeps all of its own and gets some.
                if set(cells_of(mine)) < set(cells_of(parts[a])):
                    differs = abs(cost(checks, mine) - cost(checks, other))
                    options.append((differs, -len(cells_of(mine)), mine, other))
        best = min(options, default=None)
        helps = best is not None and max(cost(checks, best[2]), cost(checks, best[3])) < own
        overhead = beta * queries_in(boxes, parts[a]) * gain / own
        found.append((gain, overhead, (b,), "shift", {**parts, a: best[2], b: best[3]} if best and helps else None))
    return found


def _corners(checks: dict[Cell, float], boxes: list[Part], parts: dict[int, Part], beta: float, a: int) -> list[Found]:
    """Try every strip at the four sides of A that joins B to a larger rectangle and leaves a rectangle of A."""
    own, found = cost(checks, parts[a]), list[Found]()
    for b in parts:
        if b == a or union(parts[a], parts[b]) is not None:
            continue
        for low, high in splits(parts[a]):
            for strip, rest in ((low, high), (high, low)):
                larger = union(strip, parts[b])
                if larger is None or not _crosses(strip, parts[a], parts[b]):
                    continue
                gain = own - max(cost(checks, rest), cost(checks, larger))
                found.append(
                    (gain, beta * queries_in(boxes, strip), (b,), "corner_shift", {**parts, a: rest, b: larger})
                )
    return found


def _crosses(strip: Part, a: Part, b: Part) -> bool:
    """Whether the strip is as wide as B, and as deep as A, seen from the side where B lies."""
    if strip[2] + 1 == b[0] or b[2] + 1 == strip[0]:
        return (strip[1], strip[3]) == (b[1], b[3]) and (strip[0], strip[2]) == (a[0], a[2])
    return (strip[0], strip[2]) == (b[0], b[2]) and (strip[1], strip[3]) == (a[1], a[3])
