"""Phase two of PS2Stream's Algorithm 1, with the rows of each region counted one by one and exact loads.

The departures are those that `planning/planners/hybrid.py` and the functions it calls name.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

import numpy as np

Part = tuple[int, int, int, int]
"""First column, first row, last column, last row."""

Figures = tuple[int, int, int]
"""Objects, subscriptions, `reads` of the objects."""

Rates = tuple[int, int, int, int]
"""Load of a pair, an object, a subscription, a unit of `reads`; whole numbers, so that loads are exact."""


def load_of(figures: Figures, rates: Rates) -> int:
    """Definition 1, and the postings read."""
    objects, subscriptions, reads = figures
    return rates[0] * objects * subscriptions + rates[1] * objects + rates[2] * subscriptions + rates[3] * reads


@dataclass(frozen=True)
class Leaf:
    """A leaf node; by_text: it belongs to N_t; terms: those that it serves, None: all."""

    part: Part
    by_text: bool
    terms: tuple[int, ...] | None
    figures: Figures
    load: int


@dataclass(frozen=True)
class World:
    """The rows of a sample on a raster.

    objects    column and row of each object, and its `reads` under each of its live terms
    boxes      the cells of each box, and the terms that it is posted under
    least_sum  whether nodes are cut for the least sum
    """

    objects: list[tuple[int, int, dict[int, int]]]
    boxes: list[tuple[Part, set[int]]]
    rates: Rates
    least_sum: bool
    known: dict[tuple[Part, tuple[int, ...] | None], Figures] = field(default_factory=dict)
    estimated: dict[tuple[Part, int], Fraction] = field(default_factory=dict)
    covering: dict[tuple[int, int], int] = field(default_factory=dict)

    def objects_in(self, part: Part) -> list[tuple[int, int, dict[int, int]]]:
        return [one for one in self.objects if _covers(part, one[0], one[1]) and one[2]]

    def boxes_in(self, part: Part) -> list[set[int]]:
        return [own for (x0, y0, x1, y1), own in self.boxes
                if own and x0 <= part[2] and x1 >= part[0] and y0 <= part[3] and y1 >= part[1]]  # fmt: skip

    def boxes_over(self, x: int, y: int) -> int:
        """Count the boxes that cover a cell."""
        if (x, y) not in self.covering:
            self.covering[x, y] = sum(_covers(box, x, y) for box, own in self.boxes if own)
        return self.covering[x, y]

    def figures(self, part: Part, terms: tuple[int, ...] | None = None) -> Figures:
        """Count what a worker has that serves some terms of a part."""
        if (part, terms) not in self.known:
            chosen = set().union(*(own for _, own in self.boxes)) if terms is None else set(terms)
            reads = [[own[term] for term in own.keys() & chosen] for *_, own in self.objects_in(part)]
            boxes = sum(bool(own & chosen) for own in self.boxes_in(part))
            self.known[part, terms] = (sum(map(bool, reads)), boxes, sum(map(sum, reads)))
        return self.known[part, terms]

    def leaf(self, part: Part, by_text: bool = False, terms: tuple[int, ...] | None = None) -> Leaf:
        figures = self.figures(part, terms)
        return Leaf(part, by_text, terms, figures, load_of(figures, self.rates))

    def estimate(self, part: Part, workers: int) -> Fraction:
        """Return the load of each of `workers` workers that share a part. They cannot divide the pairs of one cell."""
        if (part, workers) not in self.estimated:
            objects, boxes, reads = self.figures(part)
            joint = sum(self.boxes_over(x, y) for x, y, _ in self.objects_in(part))
            share, pair, rates = Fraction(joint, max(objects * boxes, 1)), self.rates[0], self.rates[1:]
            stored = boxes * ((1 - share) / workers + share)
            evenly = Fraction(rates[0] * objects + rates[2] * reads + pair * objects * stored, workers)
            self.estimated[part, workers] = evenly + rates[1] * stored
        return self.estimated[part, workers]


def _covers(part: Part, x: int, y: int) -> bool:
    return part[0] <= x <= part[2] and part[1] <= y <= part[3]


def cut_by_text(world: World, leaf: Leaf, groups: int, bound: float = math.inf) -> list[Leaf]:
    """Cut the terms into runs of about the least greatest load, the rarest per box first; none beyond the bound."""
    objects, boxes = [own for *_, own in world.objects_in(leaf.part)], world.boxes_in(leaf.part)
    terms = set().union(*objects, *boxes) if leaf.terms is None else leaf.terms

    def objects_per_box(term: int) -> tuple[bool, Fraction]:
        posted = sum(term in own for own in boxes)
        return posted == 0, Fraction(sum(term in own for own in objects), max(posted, 1))

    order = sorted(sorted(terms), key=objects_per_box)

    def fill(bound: float) -> list[Leaf]:
        runs: list[tuple[int, ...]] = [()]
        for term in order:
            longer = (*runs[-1], term)
            if runs[-1] and load_of(world.figures(leaf.part, longer), world.rates) > bound:
                runs.append((term,))
            else:
                runs[-1] = longer
        return [world.leaf(leaf.part, True, run) for run in runs] if len(runs) <= groups else []

    best, low, high = fill(bound), 0.0, bound
    if bound == math.inf:
        if groups == 1 or len(order) < 2:
            return best
        high = float(best[0].load)
    steps = 24
    while best and low < 0.98 * high and steps:
        steps -= 1
        middle = math.sqrt(low * high) if low else high / 8
        if tried := fill(middle):
            best, high = tried, middle
        else:
            low = middle
    return best if all(run.load <= bound for run in best) else []


@dataclass(frozen=True)
class Tree:
    """A node of a kd-tree; loads: of each worker below; groups: its leaves if it is cut by text."""

    part: Part
    workers: int
    loads: list[int]
    expected: Fraction
    children: tuple["Tree", ...] = ()
    vertical: bool = False
    groups: tuple[Leaf, ...] = ()

    def leaves(self, world: World) -> list[Leaf]:
        if self.children:
            return [leaf for child in self.children for leaf in child.leaves(world)]
        return list(self.groups) if len(self.groups) > 1 else [world.leaf(self.part)]

    def correction(self) -> Fraction:
        return Fraction(sum(self.loads), len(self.loads)) / self.expected if self.expected else Fraction(1)


Cut = tuple[Fraction, bool, tuple[Part, Part], tuple[int, int]]
"""The load of a worker of the more loaded side, whether columns are cut apart, the sides, the workers of each."""


def cut_along(
    world: World, part: Part, vertical: bool, workers: tuple[int, int], factors: tuple[Fraction, Fraction]
) -> list[Cut]:
    """The best cut on an axis, that by area first among equals; none if there is one column, or row."""
    x0, y0, x1, y1 = part
    if vertical:
        sides = [((x0, y0, x, y1), (x + 1, y0, x1, y1)) for x in range(x0, x1)]
    else:
        sides = [((x0, y0, x1, y), (x0, y + 1, x1, y1)) for y in range(y0, y1)]
    by_area = Fraction((len(sides) + 1) * workers[0], sum(workers))
    ranked = [
        (max(f * world.estimate(side, w) for f, side, w in zip(factors, way, workers)), abs(at - by_area), way)
        for at, way in enumerate(sides, 1)
    ]
    return [(load, vertical, way, workers) for load, _, way in sorted(ranked)[:1]]


def best_cut(world: World, part: Part, workers: int) -> Cut:
    """The best cut on either axis, with either side getting the odd worker; the more compact one among equals."""
    small, even = workers // 2, (Fraction(1), Fraction(1))
    cuts = [
        cut
        for low in sorted({small, workers - small})
        for vertical in (True, False)
        for cut in cut_along(world, part, vertical, (low, workers - low), even)
    ]
    return min(cuts, key=lambda cut: (cut[0], max(max(x1 - x0, y1 - y0) for x0, y0, x1, y1 in cut[2])))


def grow(world: World, part: Part, workers: int, use_text: bool, before: Tree | None) -> Tree:
    """Cut a part for its workers; `before`: its node in the last tree, which gives directions and corrections."""
    expected = world.estimate(part, workers)
    if before and before.groups and workers > 1 and (groups := cut_by_text(world, world.leaf(part), workers)):
        return Tree(part, workers, [group.load for group in groups], expected, groups=tuple(groups))
    if workers == 1 or part[:2] == part[2:]:
        tree = Tree(part, workers, [world.leaf(part).load], expected)
    else:
        cuts, lower = list[Cut](), before.children if before else ()
        if before and lower:
            factors = lower[0].correction(), lower[1].correction()
            cuts = cut_along(world, part, before.vertical, (lower[0].workers, lower[1].workers), factors)
        lower = lower if cuts else ()
        _, vertical, sides, numbers = cuts[0] if cuts else best_cut(world, part, workers)
        children = tuple(
            grow(world, side, number, use_text, old) for side, number, old in zip(sides, numbers, lower or (None, None))
        )
        tree = Tree(part, workers, [load for child in children for load in child.loads], expected, children, vertical)
    if before is None and use_text and workers > 1:
        groups = cut_by_text(world, world.leaf(part), workers, float(max(tree.loads)))
        loads = [group.load for group in groups]
        if groups and max(loads) < max(tree.loads):
            return Tree(part, workers, loads, expected, groups=tuple(groups))
    return tree


def partition_node(world: World, leaf: Leaf, partitions: int) -> list[Leaf]:
    """PartitionNode: N_t by text; N_s by the best of four trees, or for the least sum by text as a whole."""
    if partitions == 1:
        return [leaf]
    if leaf.by_text:
        groups = cut_by_text(world, leaf, partitions)
        return groups if len(groups) > 1 else [leaf]
    trees = [grow(world, leaf.part, partitions, not world.least_sum, None)]
    for _ in range(3):
        trees.append(grow(world, leaf.part, partitions, not world.least_sum, trees[-1]))
    best = min(trees, key=lambda tree: max(tree.loads))
    if world.least_sum:
        groups = cut_by_text(world, leaf, partitions)
        if len(groups) > 1 and sum(group.load for group in groups) < sum(best.loads):
            return groups
    return best.leaves(world)


def choose_numbers(world: World, leaves: list[Leaf], workers: int) -> tuple[int, ...]:
    """ComputeNumberPartitions by trying all numbers: the least sum; the most among equals, later nodes the fewest.

    Loads that are interpolated over log k are not exact, so sums are equal if they differ by a billionth at most.
    """
    roots = [math.sqrt(leaf.load) for leaf in leaves]
    shares = [root / sum(roots) if any(roots) else 1 / len(leaves) for root in roots]
    most = [min(math.ceil(4 * share * workers) + 1, workers - len(leaves) + 1) for share in shares]
    sums = [sums_of_loads(world, leaf, number) for leaf, number in zip(leaves, most)]
    ways = [way for way in product(*(range(1, number + 1) for number in most)) if sum(way) <= workers]

    def sum_of(way: tuple[int, ...]) -> Fraction:
        return sum((of_leaf[number - 1] for of_leaf, number in zip(sums, way)), Fraction(0))

    bound = min(map(sum_of, ways)) * (1 + Fraction(1, 10**9))
    return min((way for way in ways if sum_of(way) <= bound), key=lambda way: (-sum(way), way[::-1]))


def sums_of_loads(world: World, leaf: Leaf, most: int) -> list[Fraction]:
    """Estimate C[i, k]; between cuts by text into 2, 4, 8 ... by interpolation over log k."""
    numbers = range(1, most + 1)
    if not leaf.by_text:
        return [world.estimate(leaf.part, number) * number for number in numbers]
    powers = [2**power for power in range(most.bit_length() + 1)]
    sums = [float(sum(group.load for group in cut_by_text(world, leaf, number))) for number in powers]
    return [Fraction(float(np.interp(math.log2(number), range(len(powers)), sums))) for number in numbers]


def assign_nodes(figures: list[Figures], rates: Rates, workers: int) -> list[int]:
    """MergeNodesIntoPartitions, step by step: the worker of each node; one of two nodes' rows counts twice."""
    owner = [-1] * len(figures)
    for node in sorted(range(len(figures)), key=lambda node: -load_of(figures[node], rates)):
        before = worker_loads(figures, owner, rates, workers)
        after = [worker_loads(figures, _with(owner, node, to), rates, workers) for to in range(workers)]
        best = min(range(workers), key=lambda to: (after[to][to] - before[to], before[to], to))
        # Cross-multiplied ratios: nothing raises that of an idle worker.
        if min(before) and max(after[best]) * min(before) > max(before) * min(after[best]):
            best = before.index(min(before))
        owner[node] = best
    return owner


def worker_loads(figures: list[Figures], owner: list[int], rates: Rates, workers: int) -> list[int]:
    """The load of each worker, with all figures of its nodes added."""
    totals = [[0, 0, 0] for _ in range(workers)]
    for mine, worker in zip(figures, owner):
        if worker >= 0:
            totals[worker] = [a + b for a, b in zip(totals[worker], mine)]
    return [load_of((o, s, r), rates) for o, s, r in totals]


def _with(owner: list[int], node: int, worker: int) -> list[int]:
    return [*owner[:node], worker, *owner[node + 1 :]]


def level_workers(figures: list[Figures], owner: list[int], rates: Rates, workers: int) -> list[int]:
    """Move a node of the most loaded worker, or exchange it, while that lowers the greater load of the two."""
    while True:
        loads = worker_loads(figures, owner, rates, workers)
        top, steps = loads.index(max(loads)), list[tuple[list[int], int]]()
        for node in (node for node, worker in enumerate(owner) if worker == top):
            steps += [(_with(owner, node, to), to) for to in range(workers) if to != top]
            steps += [
                (_with(_with(owner, node, to), other, top), to) for other, to in enumerate(owner) if to != top
            ]  # fmt: skip

        def greater(step: tuple[list[int], int], top: int = top) -> int:
            after = worker_loads(figures, step[0], rates, workers)
            return max(after[top], after[step[1]])

        best = min(steps, key=greater, default=None)
        if best is None or greater(best) >= loads[top]:
            return owner
        owner = best[0]


Candidate = tuple[list[Leaf], list[int], list[int]]
"""Leaves, the worker of each, the load of each worker."""


def balance(world: World, leaves: list[Leaf], workers: int, sigma: float, most: int) -> Iterator[Candidate]:
    """Lines 17 to 27: assign the leaves; cut the most loaded that can be cut until the workers are balanced."""
    while True:
        figures, owner = [leaf.figures for leaf in leaves], list(range(len(leaves)))
        if len(leaves) > workers:
            owner = level_workers(figures, assign_nodes(figures, world.rates, workers), world.rates, workers)
        loads = worker_loads(figures, owner, world.rates, workers)
        yield leaves, owner, loads
        if max(loads) <= sigma * min(loads) or len(leaves) >= most:
            return
        for leaf in sorted(leaves, key=lambda leaf: -leaf.load):
            parts = partition_node(world, leaf, 2) if leaf.load else []
            if len(parts) > 1:
                break
        else:
            return
        at = leaves.index(leaf)
        leaves = [*leaves[:at], *parts, *leaves[at + 1 :]]


def phase_two(
    world: World, regions: list[tuple[Part, bool]], whole: Part, workers: int, sigma: float, theta: int
) -> Candidate:
    """Return the leaves that the planner chooses, from the nodes of phase one; `whole`: all cells."""
    most, starts = max(theta, workers), list[list[Leaf]]()
    if not world.least_sum:
        root = world.leaf(whole)
        starts.append(partition_node(world, root, workers))
        if 1 < workers <= most // 2 and root.load:
            starts.append(partition_node(world, root, 2 * workers))
    if world.least_sum or regions != [(whole, False)]:
        leaves = [world.leaf(part, by_text) for part, by_text in regions]
        if len(leaves) < workers:
            numbers = choose_numbers(world, leaves, workers)
            leaves = [part for leaf, number in zip(leaves, numbers) for part in partition_node(world, leaf, number)]
        starts.append(leaves)
    candidates = [one for leaves in starts for one in balance(world, leaves, workers, sigma, most)]
    if world.least_sum:
        return min(candidates, key=lambda one: imbalance(one[2]))
    best = min(candidates, key=lambda one: max(one[2]))
    within = [one for one in candidates if max(one[2]) <= sigma * min(one[2])]
    balanced = min(within, key=lambda one: max(one[2]), default=best)
    return balanced if max(balanced[2]) <= 1.02 * max(best[2]) else best


def imbalance(loads: list[int]) -> Fraction:
    """The greatest load over the least; 1 without load, beyond all numbers if a worker is idle."""
    if not any(loads):
        return Fraction(1)
    return Fraction(max(loads), min(loads)) if min(loads) else Fraction(10**9)
