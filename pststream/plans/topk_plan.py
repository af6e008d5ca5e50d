"""The plan of `topk` subscriptions: the units that hold each of them, and those that get each message (object).

A `topk` subscription has no region, so its plan is not one of raster cells and leaves (`plans/plan.py`). DSkype
divides the space by a kd-tree, the words by runs in the order of their frequencies, or both (Skype, sections 7.3 and
8.2). A plan has two levels: parts of the first kind, and in each of them parts of the other kind. With a single part on
a level it is a plan of one kind. All of it is a function of the plan and of a subscription or message, so no owner is
recorded.

A subscription is held by the units whose part of the space has its place and whose words have one of its own. A message
goes to every unit with one of its words, wherever it is: no distance excludes a subscription. A pair is found at its
rarest shared word (`kernels/scored`), which belongs to one unit for each place, so exactly one unit finds it.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pststream.base.arrays import distinct_values, find_among, hash_integers

HASH, SPACE_FIRST, WORDS_FIRST = "hash", "space_first", "words_first"

HASH_SALT = 31


@dataclass(frozen=True)
class TopkPlan:
    """A plan of `first` parts with `second` parts in each; unit = index of the part * second + index in it.

    way         HASH: a unit holds the keys that hash to it; SPACE_FIRST: parts of the space, each divided by words;
                WORDS_FIRST: runs of words, each divided by space
    is_prefix   whether subscriptions are held only for the words of their loose prefixes
    space_cuts  float64[trees, leaves - 1]  kd-trees: the greatest longitude or latitude, by turns, of the lower side
    words       int64[n]                    term ids, the least frequent first
    word_cuts   int64[tables, runs - 1]     ascending: first place in `words` of each run but the first

    SPACE_FIRST: one tree, a table for each of its leaves; WORDS_FIRST: one table, a tree for each of its runs. Cut i
    lies between the leaves i and i + 1; a node of leaves [low, high) is cut at the middle, see `middle_of`.
    """

    planner: str
    way: str
    first: int
    second: int = 1
    is_prefix: bool = False
    space_cuts: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    words: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    word_cuts: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.int64))

    @property
    def units(self) -> int:
        """Number of units."""
        return self.first * self.second

    def holds(self, unit: int, keys: np.ndarray, lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
        """Return which subscriptions have their place in a unit's part of the space, or hash to it: bool[n].

        keys int64[n]; lon, lat float64[n]
        """
        if self.way == HASH:
            return np.asarray(hash_integers(keys, HASH_SALT) % np.uint64(self.units) == unit)
        outer, inner = divmod(unit, self.second)
        tree, leaf = (0, outer) if self.way == SPACE_FIRST else (outer, inner)
        return np.asarray(find_leaves(self.space_cuts[tree], lon, lat) == leaf)

    def owns(self, unit: int, terms: np.ndarray) -> np.ndarray:
        """Return which terms (int64[n]) belong to a unit: bool[n]."""
        if self.way == HASH:
            return np.ones(len(terms), bool)
        outer, inner = divmod(unit, self.second)
        table, run = (outer, inner) if self.way == SPACE_FIRST else (0, outer)
        return np.asarray(np.searchsorted(self.word_cuts[table], self.places(terms), "right") == run)

    def places(self, terms: np.ndarray) -> np.ndarray:
        """Return the place of each term in `words`, of others one by their hash: int64[n]; ids are hashes."""
        if not len(self.words):
            return np.zeros(len(terms), np.int64)
        ascending, order = self._by_id
        near, is_word = find_among(terms, ascending)
        hashed = (terms.view(np.uint64) % np.uint64(len(self.words))).astype(np.int64)
        return np.where(is_word, order[near], hashed)

    def route(self, offsets: np.ndarray, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of a message and a unit that it goes to, by unit: int64[p] each.

        offsets int64[q+1], terms int64[]: the words of each message; one without words goes nowhere
        """
        count = max(len(offsets) - 1, 1)
        owner, places = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), self.places(terms)
        if self.way == HASH:
            numbers = (np.arange(self.units)[:, None] * count + distinct_values(owner)).ravel()
        elif self.way == SPACE_FIRST:
            runs = (np.searchsorted(cuts, places, "right") for cuts in self.word_cuts)
            parts = [distinct_values((leaf * self.second + run) * count + owner) for leaf, run in enumerate(runs)]
            numbers = np.concatenate(parts)
        else:
            run = np.searchsorted(self.word_cuts[0], places, "right")
            outer, message = np.divmod(distinct_values(run * count + owner), count)
            unit = outer * self.second + np.arange(self.second)[:, None]
            numbers = np.sort((unit * count + message).ravel())
        unit, message = np.divmod(numbers, count)
        return message, unit

    def find_units(
        self, keys: np.ndarray, lon: np.ndarray, lat: np.ndarray, offsets: np.ndarray, terms: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of a subscription and a unit that holds its place and owns one of its words, by unit.

        Loose prefixes do not count here: a unit outside of them may hold a subscription from before.

        keys int64[n]; lon, lat float64[n]; offsets int64[n+1], terms int64[]: the words of each. Returns int64[p] each.
        """
        count, owner = max(len(keys), 1), np.repeat(np.arange(len(keys)), np.diff(offsets))
        if self.way == HASH:
            unit = (hash_integers(keys, HASH_SALT) % np.uint64(self.units)).astype(np.int64)[owner]
        elif self.way == SPACE_FIRST:
            leaf, run = find_leaves(self.space_cuts[0], lon, lat)[owner], np.empty(len(terms), np.int64)
            places = self.places(terms)
            for ordinal, cuts in enumerate(self.word_cuts):
                run[leaf == ordinal] = np.searchsorted(cuts, places[leaf == ordinal], "right")
            unit = leaf * self.second + run
        else:
            run, leaf = np.searchsorted(self.word_cuts[0], self.places(terms), "right"), np.empty(len(terms), np.int64)
            for ordinal, cuts in enumerate(self.space_cuts):
                here = owner[run == ordinal]
                leaf[run == ordinal] = find_leaves(cuts, lon[here], lat[here])
            unit = run * self.second + leaf
        unit, subscription = np.divmod(distinct_values(unit * count + owner), count)
        return subscription, unit

    @cached_property
    def _by_id(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.words, kind="stable")
        return self.words[order], order


def middle_of(low: int, high: int) -> int:
    """Return where the parts [low, high) are divided: the lower side has as many, or one more."""
    return low + (high - low + 1) // 2


def leaf_boxes(cuts: np.ndarray) -> np.ndarray:
    """Return the part of the world that each leaf of a kd-tree covers: float64[leaves, 4], west, south, east, north.

    cuts  float64[leaves - 1], see TopkPlan; a cut outside of its node leaves one side an empty box
    """
    boxes = np.empty((len(cuts) + 1, 4))
    stack = [(0, len(boxes), 0, np.array([-180.0, -90.0, 180.0, 90.0]))]
    while stack:
        low, high, depth, box = stack.pop()
        if high - low == 1:
            boxes[low] = box
            continue
        middle, axis = middle_of(low, high), depth % 2
        lower, upper = box.copy(), box.copy()
        lower[axis + 2] = upper[axis] = np.clip(cuts[middle - 1], box[axis], box[axis + 2])
        stack += [(low, middle, depth + 1, lower), (middle, high, depth + 1, upper)]
    return boxes


def find_leaves(cuts: np.ndarray, lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """Return the leaf of a kd-tree that each point lies in: int64[n].

    cuts  float64[leaves - 1], see TopkPlan; lon, lat float64[n]
    """
    leaves = np.empty(len(lon), np.int64)
    stack = [(0, len(cuts) + 1, 0, np.arange(len(lon)))]
    while stack:
        low, high, depth, rows = stack.pop()
        if high - low == 1:
            leaves[rows] = low
            continue
        middle = middle_of(low, high)
        is_lower = (lat if depth % 2 else lon)[rows] <= cuts[middle - 1]
        stack += [(low, middle, depth + 1, rows[is_lower]), (middle, high, depth + 1, rows[~is_lower])]
    return leaves
