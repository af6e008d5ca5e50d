"""Answer questions about frequent terms with the tables of SSTD's groups of regions (section 6.1, figure 6).

A group has one hash table of the terms in the intersection of all its regions, and one of the rest of each region. The
departures from the paper:

- the paper keeps the tables and updates them with each object, and does not say how what leaves the window is taken
  off. Here they are made of stored objects when they are needed: kept tables of 50,000,000 objects would have about
  400,000 terms a region;
- the paper does not say how regions are grouped. Here GROUP neighbours with one window are a group;
- a merger adds up the tables of workers in the paper. Here one task has all objects of a region;
- a region that is not one box is asked about by itself.
"""

import numpy as np
import pyarrow as pa

from benchmarks.support.answers.table_kernels import FIRST_SLOTS, count_in_tables, greatest_of_tables, make_tables
from pststream.kernels.questions.question_arrays import RegionArrays, Window
from pststream.search.answer_rows import AnswerRows
from pststream.search.answerers import answer_regions
from pststream.search.best_objects import ranks
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import reached, take_regions
from pststream.search.region_terms import box_around, group_regions
from pststream.search.stored_conditions import AskedConditions

GROUP = 16
"""Regions of a group at most."""


def answer_with_tables(
    snapshot: ObjectSnapshot,
    regions: RegionArrays,
    after: np.ndarray,
    up_to: np.ndarray,
    limits: np.ndarray,
    conditions: AskedConditions | None = None,
) -> AnswerRows:
    """Return what `answer_regions` returns; memory is that of the tables of one group, besides."""
    first = regions.piece_offsets[:-1]
    alike = (np.diff(regions.piece_offsets) == 1) & (regions.tests[first] == 0)
    if conditions is not None:
        alike &= ~conditions.are_needed
    boxes = regions.boxes[first]
    parts = []
    for group in group_regions(boxes, np.column_stack([after, up_to]), np.flatnonzero(alike), GROUP):
        offsets, ids, counts = _count_group(snapshot, boxes[group], after[group[:1]], up_to[group[:1]], limits[group])
        columns = [np.repeat(group, np.diff(offsets)), -counts, _words(snapshot, ids)]
        parts.append(pa.table(columns, ["question", "count", "term"]))
    single = np.flatnonzero(~alike)
    of_single = take_regions(regions, single), after[single], up_to[single], limits[single]
    rows = answer_regions(snapshot, *of_single, None if conditions is None else conditions.take(single))
    less = -rows.columns["count"].to_numpy()
    parts.append(pa.table([single[rows.question], less, rows.columns["term"]], ["question", "count", "term"]))
    order = [("question", "ascending"), ("count", "ascending"), ("term", "ascending")]
    best = pa.concat_tables(parts).sort_by(order)
    question = best.column("question").to_numpy()
    rank = ranks(question)
    kept = rank <= limits[question]
    best = best.filter(pa.array(kept)).combine_chunks()
    words, counts = pa.concat_arrays(best.column("term").chunks), pa.array(-best.column("count").to_numpy())
    return AnswerRows(question[kept], rank[kept], {"term": words, "count": counts})


def _count_group(
    snapshot: ObjectSnapshot, boxes: np.ndarray, after: np.ndarray, up_to: np.ndarray, limits: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the terms that may be answers: see `greatest_of_tables`; after, up_to int64[1,2]."""
    tables, used, around = make_tables(FIRST_SLOTS), 0, box_around(boxes)
    window = Window(*after[0].tolist(), *up_to[0].tolist())
    for segment in snapshot.segments:
        if len(reached(segment.bounds, after, up_to)):
            tables, used = count_in_tables(segment.objects, segment.terms, boxes, around, window, tables, used)
    offsets, ids, counts = greatest_of_tables(tables, limits)
    return offsets, ids, counts


def _words(snapshot: ObjectSnapshot, ids: np.ndarray) -> pa.Array:
    """Return the words of terms that objects have: string[n]."""
    distinct, place = np.unique(ids, return_inverse=True)
    words = [""] * len(distinct)
    for segment in snapshot.segments:
        terms = segment.find_terms(distinct)
        for at in np.flatnonzero(terms >= 0).tolist():
            words[at] = segment.word(terms[at])
    return pa.array(words, pa.string()).take(pa.array(place))
