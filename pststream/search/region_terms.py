"""Answer questions about the frequent terms of many regions that overlap, by counting the objects of a group once.

Neighbours with one window are a group. The terms that the most objects around the whole group have are its candidates,
which are counted over the grid of the edges of its regions (kernels/region_counts.py). No other term has more
objects in a region than the bound of the candidates, so an answer whose last term has more is proven. Other regions
form smaller groups, and are asked about one by one in the end, as are regions that are not one box.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.kernels.questions.question_arrays import RegionArrays, Window
from pststream.kernels.region_counts import add_up, choose_terms, count_rows, counts_of_boxes, make_grid
from pststream.search.answer_rows import AnswerRows
from pststream.search.answerers import answer_regions, likely_terms
from pststream.search.best_objects import ranks
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import box_regions, take_regions
from pststream.search.stored_conditions import AskedConditions


def group_regions(boxes: np.ndarray, windows: np.ndarray, rows: np.ndarray, most: int) -> list[np.ndarray]:
    """Return groups of at most `most` regions that lie close together and have one window: places, int64[] each.

    boxes    float64[q,4]   west, south, east, north of all regions
    windows  int64[q,w]     bounds of their windows
    rows     int64[n]       the regions to divide
    """
    order = rows[np.lexsort(windows[rows].T)]
    changes = np.flatnonzero((windows[order[1:]] != windows[order[:-1]]).any(axis=1)) + 1
    groups, waiting = list[np.ndarray](), [part for part in np.split(order, changes) if len(part)]
    while waiting:
        group = waiting.pop()
        if len(group) <= most:
            groups.append(group)
        else:
            # Divide the group at the median of its middles, across the axis on which they lie further apart.
            middles = boxes[group, :2] + boxes[group, 2:]
            axis = int(np.ptp(middles[:, 1]) > np.ptp(middles[:, 0]))
            waiting += np.split(group[np.argsort(middles[:, axis], kind="stable")], [len(group) // 2])
    return groups


def box_around(boxes: np.ndarray) -> np.ndarray:
    """Return the box around boxes: float64[4]."""
    return np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])


SIZES = (128, 32, 8)
"""Regions of a group at most: first, and then of those that are not proven."""

LEAST = 4
"""A group of fewer regions is not worth its grid."""

MOST_TERMS = 100
"""Questions about more terms are asked one by one."""

CANDIDATES = 64, 2
"""Candidates of a group: so many, and so many more for each term of an answer."""

MOST_CANDIDATES = 2
"""A group with this many times as many, because their counts are alike, is not worth its grid."""


class _Questions(NamedTuple):
    """Questions about boxes: float64[q,4], windows int64[q,4] (`after`, then `up_to`), limits int64[q]."""

    boxes: np.ndarray
    windows: np.ndarray
    limits: np.ndarray


class _Candidates(NamedTuple):
    """The candidates of a group, frequent ones first, and the greatest count of another term.

    order  int64[c]: the candidates in the order of their words' bytes
    terms  int32[segments,c]: the number of each within a segment, -1 where it is absent
    """

    words: pa.Array
    order: np.ndarray
    terms: np.ndarray
    bound: int


class _Proven(NamedTuple):
    """Answers that are proven, by question: the terms by rank."""

    question: np.ndarray
    words: pa.Array
    counts: np.ndarray


def answer_shared(
    snapshot: ObjectSnapshot,
    regions: RegionArrays,
    after: np.ndarray,
    up_to: np.ndarray,
    limits: np.ndarray,
    conditions: AskedConditions | None = None,
) -> AnswerRows:
    """Return what `answer_regions` returns; memory is that of one grid, besides."""
    first = regions.piece_offsets[:-1]
    asked = _Questions(regions.boxes[first], np.column_stack([after, up_to]), limits)
    waiting = (np.diff(regions.piece_offsets) == 1) & (regions.tests[first] == 0) & (limits <= MOST_TERMS)
    if conditions is not None:
        waiting &= ~conditions.are_needed
    left = np.ones(len(limits), bool)
    parts = list[_Proven]()
    for size in SIZES:
        groups = group_regions(asked.boxes, asked.windows, np.flatnonzero(waiting & left), size)
        for part, proven in _answer_groups(snapshot, asked, [group for group in groups if len(group) >= LEAST]):
            parts.append(part)
            left[proven] = False
    rows = np.flatnonzero(left)
    of_rows = take_regions(regions, rows), after[rows], up_to[rows], limits[rows]
    single = answer_regions(snapshot, *of_rows, None if conditions is None else conditions.take(rows))
    term, count = single.columns["term"], single.columns["count"].to_numpy()
    # Each question is in one part.
    questions, words, counts = zip(*parts, _Proven(rows[single.question], term, count))
    question = np.concatenate(questions)
    order = np.argsort(question, kind="stable")
    columns = {"term": pa.concat_arrays(words).take(pa.array(order)), "count": pa.array(np.concatenate(counts)[order])}
    return AnswerRows(question[order], ranks(question[order]), columns)


def _answer_groups(
    snapshot: ObjectSnapshot, asked: _Questions, groups: list[np.ndarray]
) -> Iterator[tuple[_Proven, np.ndarray]]:
    """Yield the answers of some groups that are proven, and their questions."""
    columns = np.full(max((len(segment.terms) for segment in snapshot.segments), default=0) + 1, -1, np.int16)
    for group, candidates in zip(groups, _find_candidates(snapshot, asked, groups)):
        if len(candidates.words):
            counts = _count_group(snapshot, asked, group, candidates, columns)
            proven, offsets, chosen, numbers = choose_terms(
                counts, candidates.order, candidates.bound, asked.limits[group]
            )
            words = candidates.words.take(pa.array(chosen))
            yield _Proven(np.repeat(group, np.diff(offsets)), words, numbers), group[proven]


def _find_candidates(snapshot: ObjectSnapshot, asked: _Questions, groups: list[np.ndarray]) -> Iterator[_Candidates]:
    """Yield the candidates of groups; none where there are too many."""
    if not groups:
        return
    around = np.array([box_around(asked.boxes[group]) for group in groups])
    windows = np.array([asked.windows[group[0]] for group in groups])
    limits = np.array([CANDIDATES[0] + CANDIDATES[1] * asked.limits[group].max() for group in groups], np.int64)
    likely = likely_terms(snapshot, box_regions(around), windows[:, :2], windows[:, 2:], limits)
    frequent = np.lexsort([-likely.counts, likely.question])
    ids, words = likely.ids[frequent], pa.array(likely.words, pa.string()).take(pa.array(frequent))
    terms = np.array([segment.find_terms(ids) for segment in snapshot.segments]).reshape(
        len(snapshot.segments), len(ids)
    )
    edges = np.searchsorted(likely.question, np.arange(len(groups) + 1)).tolist()
    for limit, bound, first, stop in zip(limits.tolist(), likely.bounds.tolist(), edges[:-1], edges[1:]):
        stop = stop if stop - first <= MOST_CANDIDATES * limit else first
        own = words[first:stop]
        yield _Candidates(own, pc.sort_indices(own).to_numpy().astype(np.int64), terms[:, first:stop], bound)


def _count_group(
    snapshot: ObjectSnapshot, asked: _Questions, group: np.ndarray, candidates: _Candidates, columns: np.ndarray
) -> np.ndarray:
    """Return the objects of each region of a group that have each candidate: int32[g,c].

    columns  int16[t+1], all -1, for the work
    """
    boxes = asked.boxes[group]
    grid, window = make_grid(boxes), Window(*asked.windows[group[0]].tolist())
    cells = np.zeros((len(grid.lon), len(grid.lat), len(candidates.words)), np.int32)
    for segment, terms in zip(snapshot.segments, candidates.terms):
        first, last, first_key, last_key = segment.bounds.tolist()
        present = np.flatnonzero(terms >= 0)
        if len(present) and window.after_ts <= last and window.up_to_ts >= first and window.up_to_key >= first_key:
            own, some_keys = terms[present], last_key > window.up_to_key
            columns[own] = present
            known = columns[: own.max() + 2]
            count_rows(segment.objects, box_around(boxes), grid, window, some_keys, known, cells)
            columns[own] = -1
    add_up(cells)
    return np.asarray(counts_of_boxes(grid, cells))
