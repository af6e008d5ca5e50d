"""SSTD's workloads, Algorithm 1, by space alone too, and the division of its leaves, as the paper states them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import WorkloadSample
from tests.plans import unpack

Part = tuple[int, int, int, int]
"""First column, first row, last column, last row."""


Query = tuple[int, int, int, int, list[int]]
"""First column, first row, last column, last row of its box, and its keywords."""


class Statistics:
    """Objects as (column, row, words); subscriptions; and questions, or the subscriptions in their place."""

    def __init__(self, sample: WorkloadSample, grid: DispatchGrid) -> None:
        posts = unpack(sample.post_offsets, sample.post_terms)
        live = {word for words in posts for word in words}
        x, y = grid.cell_x(sample.lon).tolist(), grid.cell_y(sample.lat).tolist()
        self.subscriptions = [row for row in _queries(grid, sample.boxes, posts) if row[4]]
        self.asked, counted = self.subscriptions, live
        if (questions := sample.questions) is not None:
            self.asked = _queries(grid, questions.boxes, unpack(questions.word_offsets, questions.words))
            counted = {word for *_, words in self.asked for word in words}
        words = [set(own) for own in unpack(sample.term_offsets, sample.terms)]
        self.objects = [(column, row, own & counted) for column, row, own in zip(x, y, words) if own & live]

    def workload(self, part: Part) -> float:
        """Equation 2 with SRQ and CRQ; without questions, each is half of the queries."""
        return float(self.workload_of(part, [words for x, y, words in self.objects if is_inside(part, x, y)]))

    def keywords_in(self, part: Part) -> list[list[int]]:
        """The keywords of each question that touches a part."""
        return [question[4] for question in self.asked if touches(part, question)]

    def workload_of(self, part: Part, objects: list[set[int]]) -> Fraction:
        """Equation 2 of a part, of whose objects only these (by their words) count."""
        questions, total = self.keywords_in(part), len(self.asked) + len(self.subscriptions)
        if not total:
            return Fraction(0)
        keywords = Counter(word for words in questions for word in words)
        known = set().union(*objects)
        h = Fraction(sum(n for word, n in keywords.items() if word in known), max(sum(keywords.values()), 1))
        lengths = Counter(len(q[4]) for q in self.asked)
        covered = sum(Fraction(n, len(self.asked)) * h**length for length, n in lengths.items())
        subscriptions = sum(touches(part, query) for query in self.subscriptions)
        return Fraction(len(questions), total) * covered * len(objects) + Fraction(subscriptions, total) * len(objects)

    def share_of_quarters(self, part: Part) -> Fraction:
        """H of section 5.3: the mean share of the queries of a part that touch a quarter, over quarters and types."""
        shares, parts = [], quarters(part)
        for queries in (self.subscriptions, self.asked):
            if whole := sum(touches(part, query) for query in queries):
                shares += [Fraction(sum(touches(one, query) for query in queries), whole) for one in parts]
        return sum(shares, Fraction(0)) / max(len(shares), 1)


def _queries(grid: DispatchGrid, boxes: np.ndarray, keywords: list[list[int]]) -> list[Query]:
    sides = [grid.cell_x(boxes[:, 0]), grid.cell_y(boxes[:, 1]), grid.cell_x(boxes[:, 2]), grid.cell_y(boxes[:, 3])]
    return list(zip(*(side.tolist() for side in sides), keywords))


def touches(part: Part, query: Query) -> bool:
    return query[0] <= part[2] and query[2] >= part[0] and query[1] <= part[3] and query[3] >= part[1]


def is_inside(part: Part, x: int, y: int) -> bool:
    return part[0] <= x <= part[2] and part[1] <= y <= part[3]


def quarters(part: Part) -> list[Part]:
    """The quarters of a part, from the south-west; two of one column or row, and the part itself of one cell."""
    x0, y0, x1, y1 = part
    x, y = (x0 + x1) // 2, (y0 + y1) // 2
    return [
        (west, low, east, high)
        for low, high in [(y0, y), (y + 1, y1)]
        for west, east in [(x0, x), (x + 1, x1)]
        if low <= high and west <= east
    ]


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
        for child in quarters(top[1]):
            leaves.append((made, child, statistics.workload(child)))
            made += 1
    return [(part, workload) for _, part, workload in leaves]


Thing = tuple[int, int, set[int]]
"""Column, row and words of an object."""


@dataclass
class Node:
    """A node of a QT-tree; a textual one has the keyword list of each child in `lists`."""

    parent: int
    part: Part
    objects: list[Thing]
    workload: Fraction
    lists: list[set[int]] = field(default_factory=list)
    is_leaf: bool = True


def qt_tree(statistics: Statistics, ordered: list[Thing], part: Part, theta: int, by_space: bool) -> list[Node]:
    """Algorithm 1; `ordered` are the objects in the order in which they are given to textual children."""
    nodes = [_node(statistics, -1, part, ordered)]
    stuck = set[int]()
    while sum(node.is_leaf for node in nodes) < theta:
        open_leaves = [number for number, node in enumerate(nodes) if node.is_leaf and number not in stuck]
        if not open_leaves:
            break
        # Workloads that are equal in exact numbers may differ in the last bit of a float.
        top = max(open_leaves, key=lambda number: (round(float(nodes[number].workload), 9), -number))
        space = _by_space(statistics, top, nodes[top]) if by_space else []
        text, lists = _by_text(statistics, top, nodes[top])
        if not space and not text:
            stuck.add(top)
            continue
        nodes[top].is_leaf = False
        if space and (not text or sum(n.workload for n in space) <= sum(n.workload for n in text)):
            nodes += space
        else:
            nodes += text
            nodes[top].lists = lists
    return nodes


def _node(statistics: Statistics, parent: int, part: Part, objects: list[Thing]) -> Node:
    return Node(parent, part, objects, statistics.workload_of(part, [words for _, _, words in objects]))


def _by_space(statistics: Statistics, number: int, node: Node) -> list[Node]:
    if node.part[:2] == node.part[2:]:
        return []
    return [
        _node(statistics, number, part, [thing for thing in node.objects if is_inside(part, *thing[:2])])
        for part in quarters(node.part)
    ]


def _by_text(statistics: Statistics, number: int, node: Node) -> tuple[list[Node], list[set[int]]]:
    """Each object goes to the child whose workload it increases least. Increments are floats: they may be equal."""
    asked = Counter(word for words in statistics.keywords_in(node.part) for word in words)
    lengths = Counter(len(q[4]) for q in statistics.asked)
    children: list[list[Thing]] = [[], [], [], []]
    lists: list[set[int]] = [set(), set(), set(), set()]

    def workload(known: set[int], count: int) -> float:
        h, total = sum(asked[word] for word in known) / max(sum(asked.values()), 1), 0.0
        for length in range(max(lengths, default=0), -1, -1):
            total = total * h + lengths[length] / max(len(statistics.asked), 1)
        return total * count

    for thing in node.objects:
        increments = [
            workload(lists[child] | thing[2], len(children[child]) + 1) - workload(lists[child], len(children[child]))
            for child in range(4)
        ]
        child = increments.index(min(increments))
        children[child].append(thing)
        lists[child] |= thing[2]
    if sum(bool(own) for own in children) < 2:
        return [], []
    return [_node(statistics, number, node.part, own) for own in children], lists


@dataclass
class Adjusted:
    """A node while FG changes its tree: the objects of the new sample, and the seconds of a leaf."""

    parent: int
    part: Part
    objects: list[Thing]
    children: list[int]
    lists: list[set[int]]
    seconds: Fraction = Fraction(0)


def _leaves(tree: dict[int, Adjusted]) -> list[int]:
    return [number for number, node in tree.items() if not node.children]


def _is_candidate(tree: dict[int, Adjusted], number: int) -> bool:
    """Whether a node has children, all of which are leaves."""
    return bool(tree[number].children) and not any(tree[child].children for child in tree[number].children)


def _is_even(loads: list[Fraction], workers: int, target: float) -> bool:
    """Whether every worker gets a load, and the greatest is at most `target` times the least."""
    sums = sorted(sum((loads[place] for place in part), Fraction(0)) for part in differencing(loads, workers))
    return len(sums) == workers and sums[0] > 0 and sums[-1] / sums[0] <= target


def adjust_tree(
    statistics: Statistics, tree: dict[int, Adjusted], workers: int, target: float, order: list[Thing]
) -> None:
    """FG of section 5.3, without the reallocation at its end; the tree is changed.

    order  all objects in the order in which they are given to textual children
    """

    def weight(number: int) -> Fraction:
        return statistics.workload_of(tree[number].part, [thing[2] for thing in tree[number].objects])

    def merged(number: int) -> Fraction:
        children = tree[number].children
        together = sum((weight(child) for child in children), Fraction(0))
        scale = weight(number) / together if together else Fraction(1)
        return scale * sum((tree[child].seconds for child in children), Fraction(0))

    greatest = max(tree[leaf].seconds for leaf in _leaves(tree))
    candidates = {number: merged(number) for number in tree if _is_candidate(tree, number)}
    candidates = {number: value for number, value in candidates.items() if value < greatest}
    following = max(tree) + 1
    while True:
        top = max(_leaves(tree), key=lambda leaf: (tree[leaf].seconds, -leaf))
        node, whole = tree[top], weight(top)
        own = {id(thing) for thing in node.objects}
        made = Node(node.parent, node.part, [thing for thing in order if id(thing) in own], whole)
        lists: list[set[int]] = []
        if statistics.share_of_quarters(node.part) <= Fraction(1, 2) and len(quarters(node.part)) > 1:
            children = _by_space(statistics, top, made)
        else:
            children, lists = _by_text(statistics, top, made)
        if not children or not whole:
            return
        for number, child in enumerate(children, start=following):
            share = node.seconds * child.workload / whole
            tree[number] = Adjusted(top, child.part, child.objects, [], [], share)
        node.children, node.lists = list(range(following, following + len(children))), lists
        following += len(children)
        greatest = max(tree[leaf].seconds for leaf in _leaves(tree))
        candidates = {
            number: value for number, value in candidates.items() if number in tree and _is_candidate(tree, number)
        }
        if not candidates:
            return
        least = min(candidates, key=lambda number: (candidates[number], number))
        if candidates[least] > greatest:
            return
        tree[least].seconds = candidates.pop(least)
        for child in tree[least].children:
            del tree[child]
        tree[least].children, tree[least].lists = [], []
        if tree[least].parent >= 0 and _is_candidate(tree, tree[least].parent):
            candidates[tree[least].parent] = merged(tree[least].parent)
        loads = [tree[leaf].seconds for leaf in _leaves(tree)]
        if _is_even(loads, workers, target):
            return


def differencing(numbers: Sequence[Fraction | int], parts: int) -> list[set[int]]:
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
