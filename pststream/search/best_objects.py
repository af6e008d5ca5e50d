"""Find the k nearest or best scored objects of many questions that are given as arrays, over all segments.

The questions `knn` and `topk` are answered by these functions, and so are first answers and re-evaluations of
subscriptions with memory: thousands of questions in one pass, with one end of the log. Give each of these the same row
of `up_to`: the greatest ts and key that count; and as its row of `after` the boundary of its window. Objects that are
withdrawn are left out by `ObjectSnapshot.without`; the weights of words are those of the snapshot.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from pststream.base import names
from pststream.base.arrays import concatenate_ranges
from pststream.base.arrow_columns import csr
from pststream.kernels.questions.codes import distances_m
from pststream.kernels.questions.heaps import Heaps
from pststream.kernels.questions.nearest_rows import find_nearest
from pststream.kernels.questions.question_arrays import RegionArrays, Windows, choose_clauses
from pststream.kernels.questions.rows_in_regions import choose_paths, find_rows
from pststream.kernels.questions.scored_rows import ScoredQuestions, find_scored
from pststream.queries.shapes.contract import matched_lon
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import (
    Clauses,
    TimedQuestion,
    bound_of_segment,
    box_regions,
    clauses_of,
    cover,
    limits_of,
    reached,
    rows_of_any_clause,
    window_bounds,
)
from pststream.search.stored_conditions import AskedConditions
from pststream.search.verified_questions import ScoredObjects, ScoredWords, VerifiedQuestions, verified_of


def order_rows(question: np.ndarray, value: np.ndarray, ts: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Return the order of rows by question, least value, newest, last in the log: int64[n].

    Question and value, or ts where all values are equal, are packed into one number, which decides unless it has ties:
    one sort of numbers is several times faster than `lexsort`.

    question, ts, key  int64[n]
    value              float32[n]
    """
    if not len(question):
        return np.empty(0, np.int64)
    if (value == value[0]).all():
        second = -ts
    else:
        # Integers in the order of the values; equal values have equal ones.
        signed = (value + np.float32(0.0)).view(np.int32)
        second = np.where(signed < 0, signed ^ 0x7FFFFFFF, signed).astype(np.int64)
    second = second - second.min()
    bits = int(second.max()).bit_length()
    if bits + int(question.max()).bit_length() < 64:
        packed = question << bits | second
        order = np.argsort(packed)
        packed = packed[order]
        if (packed[1:] > packed[:-1]).all():
            return order
    return np.lexsort((-key, -ts, value, question))


_ROW_BITS = 32

WORLD = (-180.0, -90.0, 180.0, 90.0)
"""Box of all places: west, south, east, north."""


class PointQuestions(NamedTuple):
    """Questions for the k best objects around a point, q of them.

    points   float64[q,2]  longitude and latitude, degrees
    k        int64[q]      greatest number of objects, at least 1
    clauses                the clauses of each; for scores each clause is one word
    after    int64[q,2]    ts and key; objects with greater (ts, key) count: the boundary of the window
    up_to    int64[q,2]    ts and key; objects up to this ts and up to this key count
    scales   float64[q,2]  for scores: alpha and the scale of distances in metres
    farthest float32[q]    for distances: the greatest that counts, metres; infinity: any. None: any for all questions
    verified               what is verified of each; None: nothing is
    """

    points: np.ndarray
    k: np.ndarray
    clauses: Clauses
    after: np.ndarray
    up_to: np.ndarray
    scales: np.ndarray = np.empty((0, 2))
    farthest: np.ndarray | None = None
    verified: VerifiedQuestions | None = None

    def take(self, questions: np.ndarray, k: np.ndarray) -> "PointQuestions":
        """Return some questions by their places, for the k best objects (int64[n] each), without verified clauses."""
        scales = self.scales[questions] if len(self.scales) else self.scales
        farthest = None if self.farthest is None else self.farthest[questions]
        bounds = self.after[questions], self.up_to[questions]
        return PointQuestions(self.points[questions], k, self.clauses.take(questions), *bounds, scales, farthest)


class BestObjects(NamedTuple):
    """The objects of answers, by question and rank, n of them.

    question  int64[n]    place of the question in the batch
    value     float32[n]  distance in metres, or the score below 0: the least is the best
    ts        int64[n]    microseconds
    key       int64[n]    object key
    place     int64[n]    `place_of` the row
    """

    question: np.ndarray
    value: np.ndarray
    ts: np.ndarray
    key: np.ndarray
    place: np.ndarray


class BestRows:
    """The best rows of each question of a batch so far, in heaps.

    capacities  int64[q]: greatest number of rows of each question; 0: the question has no heap
    greatest    float32[q]: greatest value of a row of each question, infinity: any; None: any value for all questions
    """

    def __init__(self, capacities: np.ndarray, greatest: np.ndarray | None = None) -> None:
        room = int(capacities.sum())
        self._greatest = np.full(len(capacities), np.inf, np.float32) if greatest is None else greatest
        # A bounded heap starts full of rows beyond its bound, so kernels never visit cells with greater values only.
        self.heaps = Heaps(
            starts=np.append(0, np.cumsum(capacities)).astype(np.int64),
            sizes=np.where(np.isfinite(self._greatest), capacities, 0),
            values=np.repeat(np.nextafter(self._greatest, np.float32(np.inf)), capacities),
            rows=np.zeros((room, 3), np.int64),
        )

    def number_places(self, segment: int) -> None:
        """Replace the places that kernels have written for rows of this segment by `place_of` them."""
        places = self.heaps.rows[:, 2]
        new = places < 0
        places[new] = place_of(segment, -1 - places[new])

    def oldest_times(self) -> np.ndarray:
        """Return the ts that rows of equal value must have to enter each heap: int64[q], the least ts until it is full.

        Questions without a heap have the least ts too.
        """
        starts, sizes, _, rows = self.heaps
        full = (sizes > 0) & (sizes == np.diff(starts))
        times = np.full(len(sizes), names.NO_TIME)
        times[full] = rows[starts[:-1][full], 0]
        return times

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return question, value and (ts, key, place) of all rows."""
        starts, sizes, values, rows = self.heaps
        question = np.repeat(np.arange(len(sizes)), sizes)
        at = concatenate_ranges(starts[:-1], sizes)
        inside = values[at] <= self._greatest[question]
        return question[inside], values[at[inside]], rows[at[inside]]


def find_nearest_objects(snapshot: ObjectSnapshot, questions: PointQuestions) -> BestObjects:
    """Return the k nearest objects that satisfy the clauses of each question; ties: the newest, then the last key."""
    verified = questions.verified
    if verified is None:
        return _find_nearest(snapshot, questions)
    world = box_regions(np.tile(WORLD, (len(questions.k), 1)))
    windows = Windows(after=questions.after, up_to=questions.up_to)

    def find(some: np.ndarray, k: np.ndarray) -> BestObjects:
        return _find_nearest(snapshot, questions.take(some, k))

    def list_all(some: np.ndarray) -> Iterator[BestObjects]:
        for best in list_objects(snapshot, some, world, windows, questions.clauses, verified.conditions):
            kept = keep_that_hold(snapshot, verified._replace(conditions=None), best)
            places = places_of(snapshot, *rows_of(kept.place))
            value = distances_m(questions.points[kept.question], places).astype(np.float32)
            kept = kept._replace(value=value)
            yield kept if questions.farthest is None else take_objects(kept, value <= questions.farthest[kept.question])

    keep = partial(keep_that_hold, snapshot, verified)
    return keep_verified(snapshot, verified.are_needed, questions.k, find, keep, list_all)


def find_scored_objects(snapshot: ObjectSnapshot, questions: PointQuestions) -> BestObjects:
    """Return the k objects with the greatest scores for each question; ties: the newest, then the last key."""
    verified = questions.verified
    if verified is None:
        return _find_scored(snapshot, questions)
    weights = snapshot.term_weights
    clauses = questions.clauses
    records = np.column_stack([questions.points, questions.scales])
    asked = ScoredWords(records, clauses.clause_offsets, clauses.terms, weights.of_terms(clauses.terms))

    def find(some: np.ndarray, k: np.ndarray) -> BestObjects:
        return _find_scored(snapshot, questions.take(some, k))

    def score(best: BestObjects) -> BestObjects:
        values, segment, row = best.value.copy(), *rows_of(best.place)
        met = verified.meet(snapshot, best.question, segment, row)
        values[~met] = np.nan
        of_segments = verified.pairs_of_segments(snapshot, best.question, segment, row, met)
        for pairs, position, columns, terms in of_segments:
            offsets, own = csr(columns["terms"])
            places = np.column_stack([columns["lon"].to_numpy(), columns["lat"].to_numpy()])
            objects = ScoredObjects(places, offsets, weights.of_terms(own), terms)
            values[pairs] = verified.score(asked, (position, best.question[pairs]), objects)
        return take_objects(best._replace(value=values), ~np.isnan(values))

    def list_all(some: np.ndarray) -> Iterator[BestObjects]:
        search = _scored_search(snapshot, questions)
        for number, segment in enumerate(snapshot.segments):
            chosen = np.intersect1d(some, reached(segment.bounds, questions.after, questions.up_to))
            most = np.zeros(len(questions.k), np.int64)
            most[chosen] = rows_of_any_clause(segment, clauses.within(segment))[chosen]
            for part in split_by_sum(most[chosen], MOST_ROWS):
                capacities = np.zeros(len(most), np.int64)
                capacities[chosen[part]] = most[chosen[part]]
                best = BestRows(capacities)
                search(number, np.flatnonzero(capacities), best.heaps)
                best.number_places(number)
                yield score(order_objects(*best.entries()))

    return keep_verified(snapshot, verified.are_needed, questions.k, find, score, list_all)


def list_objects(
    snapshot: ObjectSnapshot,
    questions: np.ndarray,
    regions: RegionArrays,
    windows: Windows,
    clauses: Clauses,
    conditions: AskedConditions | None,
) -> Iterator[BestObjects]:
    """Yield all objects that answer some questions (int64[n], ascending) of a batch, of about MOST_ROWS at a time those
    that satisfy the conditions, in no order; all of their values are 0.
    """
    heaps, cells = BestRows(np.zeros(len(windows.after), np.int64)).heaps, cover(regions.boxes)
    for number, segment in enumerate(snapshot.segments):
        asked = np.intersect1d(questions, reached(segment.bounds, *windows))
        within = clauses.within(segment)
        most = bound_of_segment(segment, regions, cells, within)[asked]
        for part in split_by_sum(most, MOST_ROWS):
            paths = choose_paths(segment.objects, regions, within, asked[part])
            rows = find_rows(segment.objects, asked[part], paths, regions, within, windows, heaps)
            if conditions is not None:
                rows = rows[conditions.hold_in(snapshot, number, rows[:, 0], rows[:, 3])]
            question, ts, key, row = np.ascontiguousarray(rows.T)
            yield BestObjects(question, np.zeros(len(rows), np.float32), ts, key, place_of(number, row))


MOST_ROWS = 2_000_000
"""Rows that are found for questions with something to verify at a time, unless it is one question."""

FIRST_MORE = 8
"""Objects beyond twice the wanted ones that a question with something to verify asks for first."""

MOST_SEARCHED = 4_096, 16
"""A question asks for the best objects as long as these are so many or fewer, or the stored ones are so many times as
many; then for all.
"""


def take_objects(best: BestObjects, chosen: np.ndarray) -> BestObjects:
    """Return some objects: bool[n], or their places."""
    return BestObjects(*(column[chosen] for column in best))


def keep_that_hold(snapshot: ObjectSnapshot, verified: VerifiedQuestions, best: BestObjects) -> BestObjects:
    """Return the objects that satisfy what is verified of the questions."""
    return take_objects(best, verified.hold(snapshot, best.question, *rows_of(best.place)))


def split_by_sum(values: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """Yield the places of consecutive values (int64[n]) whose sum is at most `most`, or of one value."""
    sums, start = np.cumsum(values), 0
    while start < len(values):
        stop = int(np.searchsorted(sums, most + (sums[start - 1] if start else 0), "right"))
        yield np.arange(start, max(stop, start + 1))
        start = max(stop, start + 1)


def keep_verified(
    snapshot: ObjectSnapshot,
    are_needed: np.ndarray,
    k: np.ndarray,
    find: Callable[[np.ndarray, np.ndarray], BestObjects],
    verify: Callable[[BestObjects], BestObjects],
    list_all: Callable[[np.ndarray], Iterator[BestObjects]],
) -> BestObjects:
    """Return the k best objects of each question by their verified values; 0 as k: all.

    More are asked for than are wanted, and four times as many as long as one that was not found may be among the best;
    where few objects count, all are verified.

    are_needed   bool[q]   which questions have something to verify
    k            int64[q]
    find       returns the best objects of some questions (numbered among these), by values that are never greater than
               the verified ones; takes questions and the k of each, int64[n]
    verify     returns the objects that count with their verified values
    list_all   yields all objects of some questions that count, with their verified values
    """
    stored = sum(len(segment.keys) for segment in snapshot.segments)
    limit, parts = max(MOST_SEARCHED[0], stored // MOST_SEARCHED[1]), list[BestObjects]()
    wanted = np.where(are_needed, 2 * k + FIRST_MORE, k)
    listed = k == 0
    asked = np.flatnonzero(~listed)
    while len(asked):
        waiting = list[np.ndarray]()
        for place in split_by_sum(wanted[asked], MOST_ROWS):
            some = asked[place]
            best, is_done = _verify_candidates(
                find(some, wanted[some]), some, are_needed[some], k, wanted[some], verify
            )
            parts.append(take_objects(best, is_done[np.searchsorted(some, best.question)]))
            waiting.append(some[~is_done])
        asked = np.concatenate(waiting)
        wanted[asked] *= 4
        listed[asked] = wanted[asked] > limit
        asked = asked[~listed[asked]]
    parts += list_all(np.flatnonzero(listed)) if listed.any() else ()
    if not parts:
        return order_objects(np.empty(0, np.int64), np.empty(0, np.float32), np.empty((0, 3), np.int64))
    best = BestObjects(*(np.concatenate(of_parts) for of_parts in zip(*parts, strict=True)))
    return _first_of_each(best, k)


def _first_of_each(best: BestObjects, k: np.ndarray) -> BestObjects:
    """Return the first k objects of each question in their order; 0: all."""
    best = take_objects(best, order_rows(best.question, best.value, best.ts, best.key))
    most = k[best.question]
    return take_objects(best, (ranks(best.question) <= most) | (most == 0))


def _verify_candidates(
    candidates: BestObjects,
    asked: np.ndarray,
    are_needed: np.ndarray,
    k: np.ndarray,
    wanted: np.ndarray,
    verify: Callable[[BestObjects], BestObjects],
) -> tuple[BestObjects, np.ndarray]:
    """Return the first k verified objects of questions, and which questions lack none: bool[asked].

    asked, are_needed, wanted   of the questions that were asked: their places, ascending, and how many were wanted
    """
    returned = np.bincount(candidates.question, minlength=len(asked))
    # Objects that were not found come after the last one that was.
    last = np.append(np.diff(candidates.question) > 0, True)[: len(candidates.question)]
    last_value, last_ts, last_key = (np.zeros(len(asked), column.dtype) for column in candidates[1:4])
    for of_asked, column in zip((last_value, last_ts, last_key), candidates[1:4], strict=True):
        of_asked[candidates.question[last]] = column[last]
    best = _first_of_each(verify(candidates._replace(question=asked[candidates.question])), k)
    own = np.searchsorted(asked, best.question)
    is_before = (best.value == last_value[own]) & (best.ts == last_ts[own]) & (best.key >= last_key[own])
    is_before |= (best.value == last_value[own]) & (best.ts > last_ts[own])
    is_before |= best.value < last_value[own]
    is_done = (returned < wanted) | ~are_needed
    return best, is_done | (np.bincount(own[is_before], minlength=len(asked)) >= k[asked])


def _find_nearest(snapshot: ObjectSnapshot, questions: PointQuestions) -> BestObjects:
    windows = Windows(after=questions.after, up_to=questions.up_to)

    def search(number: int, asked: np.ndarray, heaps: Heaps) -> None:
        segment = snapshot.segments[number]
        clauses = questions.clauses.within(segment)
        paths = choose_clauses(segment.objects, clauses, asked)
        find_nearest(segment.objects, asked, paths, questions.points, clauses, windows, heaps)

    return _search_segments(snapshot, questions, search)


_Search = Callable[[int, np.ndarray, Heaps], None]


def _scored_search(snapshot: ObjectSnapshot, questions: PointQuestions) -> _Search:
    """Return a function that searches the best rows of a segment for some questions into heaps."""
    weights, squares = questions.clauses.weighed(snapshot.term_weights)
    scored = ScoredQuestions(points=questions.points, scales=questions.scales, weights=weights, squares=squares)
    windows = Windows(after=questions.after, up_to=questions.up_to)

    def search(number: int, asked: np.ndarray, heaps: Heaps) -> None:
        segment, texts = snapshot.segments[number], snapshot.text_arrays(number)
        find_scored(segment.objects, texts, asked, scored, questions.clauses.within(segment), windows, heaps)

    return search


def _find_scored(snapshot: ObjectSnapshot, questions: PointQuestions) -> BestObjects:
    return _search_segments(snapshot, questions, _scored_search(snapshot, questions))


def _search_segments(snapshot: ObjectSnapshot, questions: PointQuestions, search: _Search) -> BestObjects:
    best = BestRows(questions.k, questions.farthest)
    # The newest segments first: they have what most windows ask for.
    for number in reversed(range(len(snapshot.segments))):
        asked = reached(snapshot.segments[number].bounds, questions.after, questions.up_to)
        if len(asked):
            search(number, asked, best.heaps)
            best.number_places(number)
    return order_objects(*best.entries())


def order_objects(question: np.ndarray, value: np.ndarray, rows: np.ndarray) -> BestObjects:
    """Order rows by question, value, then newest, then last in the log.

    question int64[n], value float32[n], rows int64[n,3]: ts, key, place
    """
    order = order_rows(question, value, rows[:, 0], rows[:, 1])
    rows = rows[order]
    return BestObjects(question[order], value[order], rows[:, 0].copy(), rows[:, 1].copy(), rows[:, 2])


def place_of(segment: int, row: np.ndarray) -> np.ndarray:
    """Return one number for each row of a segment: int64[n]."""
    return np.int64(segment << _ROW_BITS) | row.astype(np.int64)


def rows_of(place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the segment and the row of each `place_of` a row: int64[n] each."""
    return place >> _ROW_BITS, place & ((1 << _ROW_BITS) - 1)


def places_of(snapshot: ObjectSnapshot, segment: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return longitude and latitude of rows: float64[n,2]; segment, row int64[n] each."""
    places = np.empty((len(row), 2))
    for number in np.flatnonzero(np.bincount(segment)).tolist():
        chosen = np.flatnonzero(segment == number)
        places[chosen] = snapshot.segments[number].places[row[chosen]]
    return places


def ranks(question: np.ndarray) -> np.ndarray:
    """Return the place of each row among those of its question, from 1: int64[n]; `question` int64[n] ascending."""
    starts = np.flatnonzero(np.diff(question, prepend=-1))
    return np.arange(1, len(question) + 1) - np.repeat(starts, np.diff(starts, append=len(question)))


def point_questions(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> PointQuestions:
    """Return questions as arrays, without the scales of scores; their windows are resolved in the snapshot."""
    points = np.array([question.parsed.point for question in questions], np.float64).reshape(-1, 2)
    points[:, 0] = matched_lon(*points.T)
    most = [question.parsed.max_distance_m for question in questions]
    farthest = np.array([np.inf if metres is None else metres for metres in most], np.float32)
    bounds, verified = window_bounds(snapshot, questions), verified_of(questions)
    return PointQuestions(
        points, limits_of(questions), clauses_of(questions), *bounds, farthest=farthest, verified=verified
    )
