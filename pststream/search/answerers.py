"""Answer a batch of questions of the kinds `knn`, `range` and `topk`, and list the answering function of each kind."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrays import concatenate_ranges, distinct_values, is_among
from pststream.kernels.questions.codes import unpack_numbers
from pststream.kernels.questions.count_terms import (
    CountedSegment,
    SegmentCounts,
    TermCounter,
    are_greatest,
    count_objects,
    count_terms,
    count_unlisted,
    find_ids,
    may_be_answers,
    merge_counts,
    word_heads,
)
from pststream.kernels.questions.question_arrays import RegionArrays, Windows
from pststream.kernels.questions.rows_in_regions import choose_paths, find_rows
from pststream.search.answer_rows import AnswerRows, make_answer_rows
from pststream.search.best_objects import (
    BestObjects,
    BestRows,
    find_nearest_objects,
    find_scored_objects,
    keep_that_hold,
    keep_verified,
    list_objects,
    order_objects,
    place_of,
    point_questions,
    ranks,
    rows_of,
)
from pststream.search.object_segments import ObjectSegment
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import (
    Clauses,
    TimedQuestion,
    clauses_of,
    limits_of,
    reached,
    regions_of,
    take_regions,
    window_bounds,
)
from pststream.search.reported_terms import reported_objects
from pststream.search.stored_conditions import AskedConditions, conditions_of
from pststream.search.verified_questions import verified_of

ROOM = 4_000_000
"""Terms that the segments return at a time, in all; more if it is one question."""

COUNTED = 64
"""Questions with conditions whose terms are counted at a time."""

Candidate = tuple[int, str]
"""The count of a term, below 0, and its word: candidates in ascending order of UTF-8 are in the order of answers."""


class LikelyTerms(NamedTuple):
    """Terms of questions, by question: question int64[n], ids int64[n], words, least counts int64[n].

    bounds  int64[q]: no other term has a greater count; 0: there is no other
    """

    question: np.ndarray
    ids: np.ndarray
    words: list[str]
    counts: np.ndarray
    bounds: np.ndarray


class _Batch(NamedTuple):
    """The questions of a batch, and arrays for the work of kernels."""

    regions: RegionArrays
    windows: Windows
    limits: np.ndarray
    counter: TermCounter
    conditions: AskedConditions | None = None


class _Counts(NamedTuple):
    """Terms of segments with their counts; segment int64[n], term int32[n] within the segment.

    numbers  the segment of each row of starts, stops and bounds
    """

    numbers: list[int]
    segment: np.ndarray
    term: np.ndarray
    of_terms: SegmentCounts


_Merged = tuple[np.ndarray, _Counts, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Some questions, the counts of segments, and what `merge_counts` returns of them: offsets, places, sums, exact."""


class StopWords(NamedTuple):
    """The stop words of questions or subscriptions, q of them.

    An answer without its stop words has the terms that an answer with as many rows more has besides these.

    sizes     int64[q]      how many each has
    lists     int64[q]      number of its list, -1: none
    words     large_string[w]
    listed    int64[]       the words of the lists, ascending: w times the number of the list, plus the place in `words`
    """

    sizes: np.ndarray
    lists: np.ndarray
    words: pa.Array
    listed: np.ndarray

    def drop_from(self, rows: AnswerRows, limits: np.ndarray) -> AnswerRows:
        """Return answers, by question, without stop words; at most so many rows of each question (int64[q])."""
        terms = rows.columns["term"].cast(pa.large_string())
        place = pc.index_in(terms, value_set=self.words).fill_null(-1).to_numpy()
        own = self.lists[rows.question]
        kept = np.flatnonzero((own < 0) | (place < 0) | ~is_among(own * len(self.words) + place, self.listed))
        of = rows.question[kept]
        kept = kept[np.arange(len(of)) - np.searchsorted(of, of) < limits[of]]
        columns = {name: column.take(pa.array(kept)) for name, column in rows.columns.items()}
        return AnswerRows(rows.question[kept], ranks(rows.question[kept]), columns)


def read_stop_words(texts: Sequence[str | None] | np.ndarray) -> StopWords | None:
    """Read the stop words of questions or subscriptions, texts with a blank between two words; None: none has any."""
    encoded = pa.array(texts, pa.large_string()).dictionary_encode()
    if not len(encoded.dictionary):
        return None
    lists = pc.split_pattern(encoded.dictionary, " ")
    words = pc.list_flatten(lists).dictionary_encode()
    number = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    parents = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    listed = np.sort(parents * len(words.dictionary) + words.indices.to_numpy())
    sizes = np.append(pc.list_value_length(lists).to_numpy(), 0).astype(np.int64)
    return StopWords(sizes[number], number, words.dictionary, listed)


def answer_terms(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> AnswerRows:
    """Return the rows of the answers of a batch: terms by descending count, equal counts by the bytes of the word.

    Each segment returns the terms that many of its objects have, so that memory does not grow with the terms of a
    region. If a term that no segment returns may be among the k, as where segments have few words in common, all are
    returned.
    """
    regions, bounds, limits = regions_of(questions), window_bounds(snapshot, questions), limits_of(questions)
    stop_words = read_stop_words([question.parsed.stop_words for question in questions])
    more = 0 if stop_words is None else stop_words.sizes
    rows = answer_regions(reported_objects(snapshot), regions, *bounds, limits + more, conditions_of(questions))
    return rows if stop_words is None else stop_words.drop_from(rows, limits)


def answer_regions(
    snapshot: ObjectSnapshot,
    regions: RegionArrays,
    after: np.ndarray,
    up_to: np.ndarray,
    limits: np.ndarray,
    conditions: AskedConditions | None = None,
) -> AnswerRows:
    """Return the rows of the answers of questions given as arrays.

    after, up_to   int64[q,2]   bounds of the windows, see kernels/questions/question_arrays.py
    limits         int64[q]     greatest number of terms
    conditions                  of the questions; None: none has any
    """
    batch = _make_batch(snapshot, regions, after, up_to, limits)._replace(conditions=conditions)
    question_of_row: list[int] = []
    rows: list[Candidate] = []
    for question, candidates in enumerate(_candidates(snapshot, batch)):
        kept = sorted(candidates, key=lambda one: (one[0], one[1].encode()))[: batch.limits[question]]
        question_of_row += [question] * len(kept)
        rows += kept
    owner = np.array(question_of_row, np.int64)
    columns = {
        "term": pa.array([word for _, word in rows], pa.string()),
        "count": pa.array([-count for count, _ in rows], pa.int64()),
    }
    return AnswerRows(owner, ranks(owner), columns)


def likely_terms(
    snapshot: ObjectSnapshot, regions: RegionArrays, after: np.ndarray, up_to: np.ndarray, limits: np.ndarray
) -> LikelyTerms:
    """Return the terms of the answers of questions, and others that may be, without counting them exactly.

    The arguments are those of `answer_regions`.
    """
    batch = _make_batch(snapshot, regions, after, up_to, limits)
    bounds = np.zeros(len(limits), np.int64)
    parts, words = [np.empty((3, 0), np.int64)], list[str]()
    for questions, counted, kept, places, sums, _ in _merged(snapshot, batch):
        # Every other term has a count below the k-th greatest of the least counts.
        for asked, first, stop in zip(questions.tolist(), kept[:-1].tolist(), kept[1:].tolist()):
            if stop - first >= limits[asked]:
                bounds[asked] = -np.partition(-sums[first:stop], limits[asked] - 1)[limits[asked] - 1]
        parts.append(np.stack([np.repeat(questions, np.diff(kept)), counted.of_terms.ids[places], sums]))
        named = zip(counted.segment[places].tolist(), counted.term[places].tolist())
        words += [snapshot.segments[segment].word(term) for segment, term in named]
    question, ids, counts = np.concatenate(parts, axis=1)
    order = np.argsort(question, kind="stable")
    return LikelyTerms(question[order], ids[order], [words[row] for row in order.tolist()], counts[order], bounds)


def _make_batch(
    snapshot: ObjectSnapshot, regions: RegionArrays, after: np.ndarray, up_to: np.ndarray, limits: np.ndarray
) -> _Batch:
    terms = max((len(segment.terms) for segment in snapshot.segments), default=0)
    counter = TermCounter(counts=np.zeros((terms + 1, 2), np.int32), touched=np.empty(terms + 1, np.int32))
    return _Batch(regions, Windows(after=after, up_to=up_to), limits, counter)


def _candidates(snapshot: ObjectSnapshot, batch: _Batch) -> list[list[Candidate]]:
    """Return the terms of each question whose counts are not less than its k-th greatest, or those of them to order."""
    answers: list[list[Candidate]] = [[] for _ in batch.limits]
    for questions, counted, kept, places, sums, exact in _merged(snapshot, batch):
        owner = np.repeat(questions, np.diff(kept))
        unsure = np.flatnonzero(~exact)
        if len(unsure):
            sums[unsure] = _count_exactly(snapshot, batch, counted, questions, owner[unsure], places[unsure])
        greatest = are_greatest(kept, sums, batch.limits[questions])
        owner, places, sums = owner[greatest], places[greatest], sums[greatest]
        for question, candidate in _decode(snapshot.segments, batch, owner, counted, places, sums):
            answers[question].append(candidate)
    return answers


def _merged(snapshot: ObjectSnapshot, batch: _Batch) -> Iterator[_Merged]:
    """Yield the merged counts of all questions, some at a time; of one question maybe more than once."""
    of_objects = np.zeros(len(batch.limits), bool) if batch.conditions is None else batch.conditions.are_needed
    for start in range(0, int(of_objects.sum()), COUNTED):
        yield _count_that_meet(snapshot, batch, np.flatnonzero(of_objects)[start : start + COUNTED])
    waiting = [(np.flatnonzero(~of_objects), False)]
    while waiting:
        questions, complete = waiting.pop()
        if not len(questions):
            continue
        counted = _count(snapshot, batch, questions, complete)
        done = counted.of_terms.starts.shape[1]
        waiting.append((questions[done:], complete))
        questions = questions[:done]
        enough, kept, places, sums, exact = merge_counts(counted.of_terms, batch.limits[questions])
        waiting.append((questions[~enough], True))
        yield questions, counted, kept, places, sums, exact


def _count_that_meet(snapshot: ObjectSnapshot, batch: _Batch, questions: np.ndarray) -> _Merged:
    """Return the counts of all terms of some questions with conditions, object by object."""
    every = Clauses(np.zeros(len(batch.limits) + 1, np.int64), np.zeros(1, np.int64), np.empty(0, np.int64))
    parts = [np.empty((5, 0), np.int64)]
    for some in list_objects(snapshot, questions, batch.regions, batch.windows, every, batch.conditions):
        if len(some.place):
            numbers, row = rows_of(some.place)
            segment = snapshot.segments[numbers[0]]
            lengths = np.diff(segment.offsets)[row]
            term = unpack_numbers(segment.row_terms[concatenate_ranges(segment.offsets[row], lengths)])
            pairs, counts = np.unique_counts(np.repeat(some.question, lengths) * len(segment.terms) + term)
            question, term = np.divmod(pairs, len(segment.terms))
            parts.append(np.stack([question, segment.terms[term], counts, np.full(len(term), numbers[0]), term]))
    question, ids, counts, numbers, term = np.hstack(parts)
    order = np.lexsort((ids, question))
    is_first = np.ones(len(order), bool)
    is_first[1:] = (np.diff(question[order]) != 0) | (np.diff(ids[order]) != 0)
    places = order[is_first]
    sums = np.add.reduceat(counts[order], np.flatnonzero(is_first)) if len(order) else counts
    kept = np.searchsorted(question[places], np.append(questions, len(batch.limits)))
    none = np.empty(0, np.int32)
    known = SegmentCounts(ids, none, none, *np.zeros((3, 0, len(questions)), np.int64))
    return questions, _Counts([], numbers, term.astype(np.int32), known), kept, places, sums, np.ones(len(places), bool)


def _count(snapshot: ObjectSnapshot, batch: _Batch, questions: np.ndarray, complete: bool) -> _Counts:
    """Return the greatest counts of each segment, of as many of the questions as there is room for."""
    parts, room = [], ROOM // max(len(snapshot.segments), 1)
    for number, segment in enumerate(snapshot.segments):
        asked = questions[np.isin(questions, reached(segment.bounds, *batch.windows))]
        if not len(asked):
            continue
        counted = CountedSegment(
            objects=segment.objects, lists=segment.frequent_terms, tiers=segment.tiers, last_key=segment.bounds[3]
        )
        offsets, *columns, bounds = count_terms(
            counted, asked, batch.regions, batch.windows, batch.limits, complete, room, batch.counter
        )
        if len(bounds) < len(asked):
            questions = questions[questions < asked[len(bounds)]]
        parts.append((number, segment, asked[: len(bounds)], offsets, columns, bounds))
    starts, stops, most = np.zeros((3, len(parts), len(questions)), np.int64)
    lengths, total = [], 0
    for at, (_, _, asked, offsets, _, bounds) in enumerate(parts):
        answered = np.searchsorted(asked, questions[-1], "right")
        within = np.searchsorted(questions, asked[:answered])
        starts[at, within], stops[at, within] = total + offsets[:answered], total + offsets[1 : answered + 1]
        most[at, within] = bounds[:answered]
        lengths.append(offsets[answered])
        total += lengths[-1]
    term, counts, gaps = (
        np.concatenate([np.empty(0, np.int32), *(part[4][column][:length] for part, length in zip(parts, lengths))])
        for column in range(3)
    )
    owner = np.repeat([part[0] for part in parts], lengths) if parts else np.empty(0, np.int64)
    ids = [part[1].terms[part[4][0][:length]] for part, length in zip(parts, lengths)]
    numbers = [part[0] for part in parts]
    known = SegmentCounts(
        ids=np.concatenate([np.empty(0, np.int64), *ids]), counts=counts, gaps=gaps,
        starts=starts, stops=stops, bounds=most,
    )  # fmt: skip
    return _Counts(numbers, owner, term, known)


def _count_exactly(
    snapshot: ObjectSnapshot,
    batch: _Batch,
    counted: _Counts,
    questions: np.ndarray,
    owner: np.ndarray,
    places: np.ndarray,
) -> np.ndarray:
    """Return the number of objects of each question that have a term: int64[n].

    questions: those that are counted; owner, places int64[n]: the question of each term, and one of its places
    """
    sums, ids = np.zeros(len(owner), np.int64), counted.of_terms.ids[places]
    known_places = find_ids(counted.of_terms, np.searchsorted(questions, owner), ids)
    for number, known in zip(counted.numbers, known_places):
        segment = snapshot.segments[number]
        asked = np.isin(owner, reached(segment.bounds, *batch.windows))
        pairs = np.flatnonzero(known >= 0)
        sums[pairs] += counted.of_terms.counts[known[pairs]]
        pairs = pairs[counted.of_terms.gaps[known[pairs]] > 0]
        if len(pairs):
            sums[pairs] += count_unlisted(
                segment.objects, segment.frequent_terms, owner[pairs], counted.term[known[pairs]], batch.regions,
                batch.windows,
            )  # fmt: skip
        terms = segment.find_terms(ids)
        pairs = np.flatnonzero(asked & (known < 0) & (terms >= 0))
        if len(pairs):
            sums[pairs] += count_objects(
                segment.objects, segment.bounds, owner[pairs], terms[pairs], batch.regions, batch.windows
            )
    return sums


def _decode(
    segments: Sequence[ObjectSegment],
    batch: _Batch,
    owner: np.ndarray,
    counted: _Counts,
    places: np.ndarray,
    sums: np.ndarray,
) -> list[tuple[int, Candidate]]:
    """Return the question of each candidate, and the candidate with its word.

    Of many terms with the same count, only the first by their words are decoded.
    """
    heads = np.zeros(len(places), np.uint64)
    term, segment = counted.term[places], counted.segment[places]
    for number in distinct_values(segment).tolist():
        mine = segment == number
        heads[mine] = word_heads(segments[number].word_offsets, segments[number].words, term[mine])
    asked, begins = np.unique(owner, return_index=True)
    kept = np.append(begins, len(owner))
    chosen = np.flatnonzero(may_be_answers(kept, sums, heads, batch.limits[asked]))
    return [(int(owner[at]), (-int(sums[at]), segments[segment[at]].word(term[at]))) for at in chosen]


def answer_nearest(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> AnswerRows:
    """Return the rows of the answers of a batch of `knn`, the nearest object first, with their distances.

    Distances are compared as metres in float32, so that equal distances are ties, however they are rounded.
    """
    asked = point_questions(snapshot, questions)
    return make_answer_rows(snapshot, find_nearest_objects(snapshot, asked), asked.points)


def answer_range(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> AnswerRows:
    """Return the rows of the answers of a batch of `range`, each newest first, at most its limit."""
    windows = Windows(*window_bounds(snapshot, questions))
    regions, limits = regions_of(questions), limits_of(questions)
    clauses, verified = clauses_of(questions), verified_of(questions)
    if verified is None:
        return make_answer_rows(snapshot, _find_newest(snapshot, regions, windows, clauses, limits), None)
    keep = partial(keep_that_hold, snapshot, verified)

    def find(some: np.ndarray, most: np.ndarray) -> BestObjects:
        of_some = Windows(windows.after[some], windows.up_to[some])
        return _find_newest(snapshot, take_regions(regions, some), of_some, clauses.take(some), most)

    def list_all(some: np.ndarray) -> Iterator[BestObjects]:
        listed = list_objects(snapshot, some, regions, windows, clauses, verified.conditions)
        return map(partial(keep_that_hold, snapshot, verified._replace(conditions=None)), listed)

    best = keep_verified(snapshot, verified.are_needed, limits, find, keep, list_all)
    return make_answer_rows(snapshot, best, None)


def _find_newest(
    snapshot: ObjectSnapshot, regions: RegionArrays, windows: Windows, clauses: Clauses, limits: np.ndarray
) -> BestObjects:
    best, parts = BestRows(limits), []
    # The newest segments first: older ones have no rows for the limits that are filled then.
    for number in reversed(range(len(snapshot.segments))):
        segment = snapshot.segments[number]
        asked = reached(segment.bounds, *windows)
        asked = asked[best.oldest_times()[asked] <= segment.bounds[1]]
        if not len(asked):
            continue
        within = clauses.within(segment)
        paths = choose_paths(segment.objects, regions, within, asked)
        answered = find_rows(segment.objects, asked, paths, regions, within, windows, best.heaps)
        best.number_places(number)
        answered[:, 3] = place_of(number, answered[:, 3])
        parts.append(answered)
    limited, _, newest = best.entries()
    rows = np.concatenate([np.column_stack([limited, newest]), *parts])
    return order_objects(rows[:, 0], np.zeros(len(rows), np.float32), rows[:, 1:])


def answer_scored(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> AnswerRows:
    """Return the rows of the answers of a batch of `topk`, the best score first, with distances and scores.

    Scores are compared as float32, so that equal scores are ties, however they are rounded.
    """
    pairs = [(question.parsed.alpha, question.parsed.distance_scale_m) for question in questions]
    asked = point_questions(snapshot, questions)._replace(scales=np.array(pairs, np.float64).reshape(-1, 2))
    best = find_scored_objects(snapshot, asked)
    answered = make_answer_rows(snapshot, best, asked.points)
    answered.columns["score"] = pa.array(-best.value.astype(np.float64))
    version = pa.repeat(pa.scalar(snapshot.term_weights.version, pa.int64()), len(best.question))
    answered.columns["term_statistics_version"] = version
    return answered


ANSWERERS: dict[str, Callable[[ObjectSnapshot, Sequence[TimedQuestion]], AnswerRows]] = {
    "range": answer_range,
    "knn": answer_nearest,
    "topk": answer_scored,
    "frequent_terms": answer_terms,
}
"""A new kind is one more line."""
