"""SSTD's workloads, Algorithm 1 by space alone, and the division of its leaves, as the paper states them."""

from collections import Counter
from fractions import Fraction

from pststream.domain.plan import DispatchGrid
from pststream.domain.planner_sample import WorkloadSample
from tests.plans import unpack

Part = tuple[int, int, int, int]
"""First column, first row, last column, last row."""


class Statistics:
    """Objects as (column, row, words); queries as (column and row ranges, keywords)."""

    def __init__(self, sample: WorkloadSample, grid: DispatchGrid) -> None:
        posts = unpack(sample.post_offsets, sample.post_terms)
        live = {word for words in posts for word in words}
        x, y = grid.cell_x(sample.lon).tolist(), grid.cell_y(sample.lat).tolist()
        words = [set(own) & live for own in unpack(sample.term_offsets, sample.terms)]
        self.objects = [row for row in zip(x, y, words) if row[2]]
        sides = [grid.cell_x(sample.boxes[:, 0]), grid.cell_y(sample.boxes[:, 1])]
        sides += [grid.cell_x(sample.boxes[:, 2]), grid.cell_y(sample.boxes[:, 3])]
        self.queries = [row for row in zip(*(side.tolist() for side in sides), posts) if row[4]]

    def workload(self, part: Part) -> float:
        """Equation 2 with SRQ and CRQ, each half of the queries."""
        x0, y0, x1, y1 = part
        objects = [words for x, y, words in self.objects if x0 <= x <= x1 and y0 <= y <= y1]
        queries = [q[4] for q in self.queries if q[0] <= x1 and q[2] >= x0 and q[1] <= y1 and q[3] >= y0]
        if not queries:
            return 0.0
        keywords = Counter(word for words in queries for word in words)
        known = set().union(*objects)
        h = Fraction(sum(n for word, n in keywords.items() if word in known), sum(keywords.values()))
        lengths = Counter(len(q[4]) for q in self.queries)
        covered = sum(Fraction(n, len(self.queries)) * h**length for length, n in lengths.items())
        w_srq = Fraction(len(queries), len(self.queries)) * covered * len(objects)
        w_crq = Fraction(len(queries), len(self.queries)) * len(objects)
        return float(w_srq / 2 + w_crq / 2)


def quadtree(statistics: Statistics, columns: int, rows: int, theta: int) -> list[tuple[Part, float]]:
    """Algorithm 1 without textual partitioning."""
    whole = (0, 0, columns - 1, rows - 1)
    leaves = [(0, whole, statistics.workload(whole))]
    made = 1
    while len(leaves) < theta:
        large = [leaf for leaf in leaves if leaf[1][0] < leaf[1][2] or leaf[1][1] < leaf[1][3]]
        if not large:
            break
        # Workloads that are equal in exact numbers may differ in the last bit of a float.
        top = max(large, key=lambda leaf: (round(leaf[2], 9), -leaf[0]))
        leaves.remove(top)
        x0, y0, x1, y1 = top[1]
        x, y = (x0 + x1) // 2, (y0 + y1) // 2
        for low, high in [(y0, y), (y + 1, y1)]:
            for west, east in [(x0, x), (x + 1, x1)]:
                if low <= high and west <= east:
                    child = (west, low, east, high)
                    leaves.append((made, child, statistics.workload(child)))
                    made += 1
    return [(part, workload) for _, part, workload in leaves]


def differencing(numbers: list[int], parts: int) -> list[set[int]]:
    """Karmarkar and Karp for any number of parts, with a plain list in place of the heap."""
    open_rows = [(made, [(n, {made}), *((0, set[int]()) for _ in range(parts - 1))]) for made, n in enumerate(numbers)]
    made = len(numbers)
    while len(open_rows) > 1:
        open_rows.sort(key=lambda row: (row[1][-1][0] - row[1][0][0], row[0]))
        (_, one), (_, other), *open_rows = open_rows
        joined = [(a + b, mine | others) for (a, mine), (b, others) in zip(one, reversed(other))]
        open_rows.append((made, sorted(joined, key=lambda part: -part[0])))
        made += 1
    return [places for _, places in open_rows[0][1] if places] if open_rows else []
