"""Find the k nearest or best scored objects of many questions that are given as arrays, over all segments.

The questions `knn` and `topk` are answered by these functions, and so are first answers and re-evaluations of
subscriptions with memory: thousands of questions in one pass, with one end of the log. Give each of these the same row
of `up_to`: the greatest ts and key that count; and as its row of `after` the boundary of its window. Objects that are
withdrawn are left out by `ObjectSnapshot.without`; the weights of words are those of the snapshot.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from pststream.base import names
from pststream.base.arrays import concatenate_ranges
from pststream.base.arrow_columns import csr
from pststream.kernels.questions.heaps import Heaps
from pststream.kernels.questions.nearest_rows import find_nearest
from pststream.kernels.questions.question_arrays import Windows, choose_clauses
from pststream.kernels.questions.scored_rows import ScoredQuestions, find_scored
from pststream.queries.shapes.contract import matched_lon
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import Clauses, TimedQuestion, clauses_of, limits_of, reached, window_bounds
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


class PointQuestions(NamedTuple):
    """Questions for the k best objects around a point, q of them.

    points   float64[q,2]  longitude and latitude, degrees
    k        int64[q]      greatest number of objects, at least 1
    clauses                the clauses of each; for scores each clause is one word
    after    int64[q,2]    ts and key; objects with greater (ts, key) count: the boundary of the window
    up_to    int64[q,2]    ts and key; objects up to this ts and up to this key count
    scales   float64[q,2]  for scores: alpha and the scale of distances in metres
    farthest float32[q]    for distances: the greatest that counts, metres; infinity: any. None: any for all questions
    verified               the verified clauses of each; None: none has any
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
    return _find_verified(snapshot, questions, _find_nearest)


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

    def score(question: np.ndarray, best: BestObjects) -> np.ndarray:
        values = best.value.copy()
        for pairs, position, columns, terms in verified.pairs_of_segments(snapshot, question, *rows_of(best.place)):
            offsets, own = csr(columns["terms"])
            places = np.column_stack([columns["lon"].to_numpy(), columns["lat"].to_numpy()])
            objects = ScoredObjects(places, offsets, weights.of_terms(own), terms)
            values[pairs] = verified.score(asked, (position, question[pairs]), objects)
        return values

    return keep_verified(verified.are_needed, questions.k, find, score)


_Find = Callable[[ObjectSnapshot, PointQuestions], BestObjects]


def _find_verified(snapshot: ObjectSnapshot, questions: PointQuestions, search: _Find) -> BestObjects:
    verified = questions.verified
    if verified is None:
        return search(snapshot, questions)

    def find(some: np.ndarray, k: np.ndarray) -> BestObjects:
        return search(snapshot, questions.take(some, k))

    return keep_verified(verified.are_needed, questions.k, find, partial(hold_or_nan, snapshot, verified))


FIRST_MORE = 8
"""Objects beyond twice the wanted ones that a question with verified clauses asks for first."""


def hold_or_nan(
    snapshot: ObjectSnapshot, verified: VerifiedQuestions, question: np.ndarray, best: BestObjects
) -> np.ndarray:
    """Return the values of objects, not a number where an object does not satisfy the verified clauses: float32[n]."""
    return np.where(verified.hold(snapshot, question, *rows_of(best.place)), best.value, np.float32(np.nan))


def keep_verified(
    are_needed: np.ndarray,
    k: np.ndarray,
    find: Callable[[np.ndarray, np.ndarray], BestObjects],
    verify: Callable[[np.ndarray, BestObjects], np.ndarray],
) -> BestObjects:
    """Return the k best objects of each question by their verified values; 0 as k: all.

    More are asked for than are wanted, and four times as many as long as one that was not found may be among the best.

    are_needed   bool[q]   which questions have something to verify
    k            int64[q]
    find     returns the best objects, by values that are never greater than the verified ones; takes questions and the
             k of each, int64[n]
    verify   returns the verified value of each object, not a number if it does not count; takes the question of each
    """
    asked, parts = np.arange(len(k)), list[BestObjects]()
    most = np.where(are_needed & (k > 0), 2 * k + FIRST_MORE, k)
    while len(asked):
        best = find(asked, most)
        returned = np.bincount(best.question, minlength=len(asked))
        is_whole = (returned < most) | (most == 0) | ~are_needed[asked]
        # Objects that were not found come after the last one that was.
        last = np.append(np.diff(best.question) > 0, True)[: len(best.question)]
        last_value, last_ts, last_key = (np.zeros(len(asked), column.dtype) for column in best[1:4])
        for of_asked, column in zip((last_value, last_ts, last_key), best[1:4], strict=True):
            of_asked[best.question[last]] = column[last]
        value = verify(asked[best.question], best)
        order = order_rows(best.question, value, best.ts, best.key)
        best = BestObjects(*(column[order] for column in best._replace(value=value)))
        holds = ~np.isnan(best.value)
        best = BestObjects(*(column[holds] for column in best))
        # The first k of each question.
        starts = np.flatnonzero(np.diff(best.question, prepend=-1))
        rank = np.arange(len(best.question)) - np.repeat(starts, np.diff(starts, append=len(best.question)))
        wanted = (rank < k[asked][best.question]) | (k[asked][best.question] == 0)
        best = BestObjects(*(column[wanted] for column in best))
        own = best.question
        is_before = (best.value == last_value[own]) & (best.ts == last_ts[own]) & (best.key >= last_key[own])
        is_before |= (best.value == last_value[own]) & (best.ts > last_ts[own])
        is_before |= best.value < last_value[own]
        is_done = is_whole | (np.bincount(own[is_before], minlength=len(asked)) >= k[asked])
        chosen = is_done[best.question]
        parts.append(BestObjects(asked[best.question[chosen]], *(column[chosen] for column in best[1:])))
        asked, most = asked[~is_done], 4 * most[~is_done]
    columns = [np.concatenate(of_parts) for of_parts in zip(*parts, strict=True)]
    by_question = np.argsort(columns[0], kind="stable")
    return BestObjects(*(column[by_question] for column in columns))


def _find_nearest(snapshot: ObjectSnapshot, questions: PointQuestions) -> BestObjects:
    windows = Windows(after=questions.after, up_to=questions.up_to)

    def search(number: int, asked: np.ndarray, heaps: Heaps) -> None:
        segment = snapshot.segments[number]
        clauses = questions.clauses.within(segment)
        paths = choose_clauses(segment.objects, clauses, asked)
        find_nearest(segment.objects, asked, paths, questions.points, clauses, windows, heaps)

    return _search_segments(snapshot, questions, search)


def _find_scored(snapshot: ObjectSnapshot, questions: PointQuestions) -> BestObjects:
    weights, squares = questions.clauses.weighed(snapshot.term_weights)
    scored = ScoredQuestions(points=questions.points, scales=questions.scales, weights=weights, squares=squares)
    windows = Windows(after=questions.after, up_to=questions.up_to)

    def search(number: int, asked: np.ndarray, heaps: Heaps) -> None:
        segment, texts = snapshot.segments[number], snapshot.text_arrays(number)
        find_scored(segment.objects, texts, asked, scored, questions.clauses.within(segment), windows, heaps)

    return _search_segments(snapshot, questions, search)


def _search_segments(
    snapshot: ObjectSnapshot, questions: PointQuestions, search: Callable[[int, np.ndarray, Heaps], None]
) -> BestObjects:
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
