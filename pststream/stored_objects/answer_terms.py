"""Answer questions of the kind `frequent_terms`: the k terms that the most objects of a region have."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pststream.kernels.questions.count_terms import count_terms, may_be_answers, merge_counts, word_heads
from pststream.kernels.questions.question_arrays import RegionArrays
from pststream.stored_objects.answer_rows import AnswerRows, ranks
from pststream.stored_objects.object_snapshot import ObjectSnapshot
from pststream.stored_objects.question_batch import TimedQuestion, reached, region_arrays, window_bounds

COUNTED_TOGETHER = 16
"""Questions whose counts are in memory at once: a question of the whole world counts every term of a segment."""

Candidate = tuple[int, str]
"""The count of a term, below 0, and its word: candidates in ascending order of UTF-8 are in the order of answers."""


def answer_terms(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> AnswerRows:
    """Return the rows of the answers of a batch: terms by descending count, equal counts by the bytes of the word."""
    after, up_to = window_bounds(snapshot, questions)
    regions = region_arrays([question.parsed.region for question in questions if question.parsed.region])
    limits = np.array([question.parsed.k or 0 for question in questions], np.int64)
    terms = max((len(segment.terms) for segment in snapshot.segments), default=0)
    work = np.zeros(terms, np.int32), np.empty(terms, np.int32)
    place: list[int] = []
    rows: list[Candidate] = []
    for low in range(0, len(questions), COUNTED_TOGETHER):
        together = np.arange(low, min(low + COUNTED_TOGETHER, len(questions)))
        for question, candidates in zip(together, _count(snapshot, together, regions, after, up_to, limits, work)):
            kept = sorted(candidates, key=lambda one: (one[0], one[1].encode()))[: limits[question]]
            place += [int(question)] * len(kept)
            rows += kept
    owner = np.array(place, np.int64)
    columns = {
        "term": pa.array([word for _, word in rows], pa.string()),
        "count": pa.array([-count for count, _ in rows], pa.int64()),
    }
    return AnswerRows(owner, ranks(owner), columns)


def _count(
    snapshot: ObjectSnapshot,
    questions: np.ndarray,
    regions: RegionArrays,
    after: np.ndarray,
    up_to: np.ndarray,
    limits: np.ndarray,
    work: tuple[np.ndarray, np.ndarray],
) -> list[list[Candidate]]:
    """Return the terms of each question whose counts are not less than its k-th greatest."""
    segments, local, counts, ids, starts = [], [], [], [], []
    total = 0
    for segment in snapshot.segments:
        asked = questions[np.isin(questions, reached(segment.bounds, after, up_to))]
        if not len(asked):
            continue
        offsets, terms, numbers = count_terms(segment.objects, asked, regions, after, up_to, *work)
        borders = np.full((2, len(questions)), total, np.int64)
        borders[:, np.searchsorted(questions, asked)] += np.stack([offsets[:-1], offsets[1:]])
        segments.append(segment)
        local.append(terms)
        counts.append(numbers)
        ids.append(segment.terms[terms])
        starts.append(borders)
        total += len(terms)
    if not segments:
        return [[] for _ in questions]
    borders = np.stack(starts)
    kept, places, sums = merge_counts(
        np.concatenate(ids), np.concatenate(counts), borders[:, 0].copy(), borders[:, 1].copy(), limits[questions]
    )
    term, owner = np.concatenate(local)[places], np.repeat(np.arange(len(segments)), list(map(len, local)))[places]
    # Of many terms with the same count, only the first by their words are decoded.
    heads = np.zeros(len(term), np.uint64)
    for number, segment in enumerate(segments):
        mine = owner == number
        heads[mine] = word_heads(segment.word_offsets, segment.words, term[mine])
    chosen = np.flatnonzero(may_be_answers(kept, sums, heads, limits[questions]))
    candidates = [(-int(sums[at]), segments[owner[at]].word(term[at])) for at in chosen]
    borders_of_chosen = np.searchsorted(chosen, kept)
    return [candidates[start:stop] for start, stop in zip(borders_of_chosen, borders_of_chosen[1:])]
