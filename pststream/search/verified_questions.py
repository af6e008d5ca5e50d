"""Test what the arrays of object segments do not decide, phrases, exclusions and conditions, at the objects found.

The words of the texts of a segment, in order, are derived once from its data files and kept in the node's cache.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base.arrays import make_read_only, offsets_of
from pststream.base.arrow_columns import BREAKS, Csr, csr, one_array, take_lists
from pststream.kernels.matching.verify_clauses import verify_clauses
from pststream.kernels.parsing.phrases import add_terms
from pststream.kernels.parsing.texts import hash_texts
from pststream.kernels.questions.scores import sum_squares
from pststream.kernels.scored.verify_scores import score_pairs
from pststream.matching.verified_clauses import TEXT_COLUMNS
from pststream.queries.text.phrases import PhraseTable, WordSequences, split_texts
from pststream.search import object_segments
from pststream.search.object_segments import ObjectSegment, row_order
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import TimedQuestion
from pststream.search.stored_conditions import AskedConditions, conditions_of
from pststream.search.wanted_rows import object_columns
from pststream.storage.array_cache import ArrayCache, Paths
from pststream.storage.parquet_files import open_parquet

LAYOUT = f"{object_segments.LAYOUT}-texts-1"
"""Name and version of the arrays, part of the name of the cache folder."""


class SegmentTexts(NamedTuple):
    """The words of the texts of a segment in order, by row: as `WordSequences`, but `words` are places of terms."""

    part_offsets: np.ndarray
    word_offsets: np.ndarray
    words: np.ndarray

    def take(self, segment: ObjectSegment, rows: np.ndarray) -> WordSequences:
        """Return the words of some rows (int64[n])."""
        part_offsets, parts = take_lists((self.part_offsets, np.arange(len(self.word_offsets) - 1)), rows)
        word_offsets, words = take_lists((self.word_offsets, self.words), parts)
        return WordSequences(part_offsets, word_offsets, segment.terms[words])


@lru_cache(maxsize=4)
def texts_cache(folder: str, max_bytes: int) -> ArrayCache:
    """Return the process's cache of the words of texts in order; its folder is one of those of segments of objects."""
    return ArrayCache(folder, max_bytes, LAYOUT)


def texts_of_segment(snapshot: ObjectSnapshot, number: int) -> SegmentTexts:
    """Return the words of the texts of a segment of a snapshot that was made from data files."""
    paths, segment, weights = snapshot.sources[number], snapshot.segments[number], snapshot.term_weights
    cache = texts_cache(weights.cache_dir, weights.cache_bytes)
    return SegmentTexts(**cache.arrays(paths, lambda: _build(paths, segment)._asdict()))


def _build(paths: Paths, segment: ObjectSegment) -> SegmentTexts:
    points, parts = [np.empty((2, 0))], list[WordSequences]()
    for path in paths:
        with open_parquet(path) as file:
            for group in range(file.metadata.num_row_groups):
                rows = file.read_row_group(group, ["lon", "lat", *TEXT_COLUMNS])
                points.append(np.stack([rows.column(name).to_numpy() for name in ("lon", "lat")]))
                text, breaks = (one_array(rows.column(name)) for name in TEXT_COLUMNS)
                parts.append(split_texts(text.cast(pa.string()), breaks.cast(BREAKS)))
    part_offsets = offsets_of(np.concatenate([np.diff(part.part_offsets) for part in parts]))
    word_offsets = offsets_of(np.concatenate([np.diff(part.word_offsets) for part in parts]))
    terms = segment.find_terms(np.concatenate([part.words for part in parts]))
    # Keys do not order them: withdrawn objects have another one in the segment of a snapshot.
    rows_of_segment = row_order(*np.hstack(points))
    part_offsets, order = take_lists((part_offsets, np.arange(len(word_offsets) - 1)), rows_of_segment)
    word_offsets, words = take_lists((word_offsets, terms), order)
    return make_read_only(SegmentTexts(part_offsets, word_offsets, words))


class ScoredWords(NamedTuple):
    """Questions or subscriptions of `topk`, q of them.

    records   float64[q,4]   lon, lat, alpha, scale
    offsets   int64[q+1]     slice of the words of each
    terms, weights   int64[w], float32[w]   their term ids and weights
    """

    records: np.ndarray
    offsets: np.ndarray
    terms: np.ndarray
    weights: np.ndarray


class ScoredObjects(NamedTuple):
    """Objects, o of them.

    points         float64[o,2]
    word_offsets, weights   int64[o+1], float32[]   the weights of the words of each
    terms          int64[o+1], int64[]   ascending terms of each, those of phrases among them
    """

    points: np.ndarray
    word_offsets: np.ndarray
    weights: np.ndarray
    terms: Csr


class VerifiedQuestions(NamedTuple):
    """The verified clauses of a batch of questions, their phrases, as lists of lists of term ids, and their conditions.

    clause_offsets   int64[q+1]   slice of the clauses of each question
    literal_offsets  int64[c+1]   slice of the literals of each clause
    literals         int64[]      see kernels/matching/verify_clauses.py
    phrase_offsets, word_offsets, words   likewise, of the words of phrases
    conditions       on attributes; None: no question has one
    """

    clause_offsets: np.ndarray
    literal_offsets: np.ndarray
    literals: np.ndarray
    phrase_offsets: np.ndarray
    word_offsets: np.ndarray
    words: np.ndarray
    conditions: AskedConditions | None = None

    @property
    def have_clauses(self) -> np.ndarray:
        """Which questions have verified clauses or, of `topk`, phrases: bool[q]."""
        return (np.diff(self.clause_offsets) > 0) | (np.diff(self.phrase_offsets) > 0)

    @property
    def are_needed(self) -> np.ndarray:
        """Which questions have something to verify: bool[q]."""
        return self.have_clauses | (False if self.conditions is None else self.conditions.are_needed)

    def meet(self, snapshot: ObjectSnapshot, question: np.ndarray, segment: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Return whether objects satisfy the conditions of questions: bool[n]; question, segment, row int64[n] each."""
        if self.conditions is None:
            return np.ones(len(question), bool)
        return self.conditions.hold(snapshot, question, segment, row)

    def hold(self, snapshot: ObjectSnapshot, question: np.ndarray, segment: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Return whether objects satisfy clauses and conditions; the arguments and the result are those of `meet`."""
        satisfied = self.meet(snapshot, question, segment, row)
        for pairs, position, _, terms in self.pairs_of_segments(snapshot, question, segment, row, satisfied):
            satisfied[pairs] = verify_clauses(position, question[pairs], *terms, *self[:3])
        return satisfied

    def pairs_of_segments(
        self, snapshot: ObjectSnapshot, question: np.ndarray, segment: np.ndarray, row: np.ndarray, may_hold: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, dict[str, pa.Array], Csr]]:
        """Yield the pairs whose clauses are to be verified, of those that may hold (bool[n]), for each segment.

        Yields the pairs (int64[m]), the object of each among the segment's, the columns of these, and their terms with
        those of phrases, ascending.
        """
        phrases = PhraseTable(self.word_offsets, self.words)
        chosen = self.have_clauses[question] & may_hold
        for number in np.flatnonzero(np.bincount(segment[chosen])).tolist():
            pairs = np.flatnonzero(chosen & (segment == number))
            rows, position = np.unique(row[pairs], return_inverse=True)
            columns = object_columns(snapshot.segments[number], rows)
            terms = csr(columns["terms"])
            if len(phrases):
                texts = texts_of_segment(snapshot, number).take(snapshot.segments[number], rows)
                terms = add_terms(*terms, *phrases.find(texts))
            yield pairs, position, columns, terms

    def score(self, asked: ScoredWords, pairs: tuple[np.ndarray, np.ndarray], objects: ScoredObjects) -> np.ndarray:
        """Return the scores of pairs of an object and a question below 0: float32[n]; not a number: no word counts.

        pairs   int64[n] each   object and question
        """
        phrases = self.phrase_offsets, self.word_offsets, self.words
        ids = hash_texts(np.ascontiguousarray(self.words).view(np.uint8), 8 * self.word_offsets)
        squares = sum_squares(asked.offsets, np.arange(len(asked.terms)), asked.weights)
        of_asked = np.ascontiguousarray(asked.records), squares
        words = asked.offsets, asked.terms, asked.weights
        own = sum_squares(objects.word_offsets, np.arange(len(objects.weights)), objects.weights)
        return score_pairs(*pairs, (objects.points, own), objects.terms, of_asked, words, self[:3], phrases, ids)


def verified_of(questions: Sequence[TimedQuestion]) -> VerifiedQuestions | None:
    """Return the verified clauses, phrases and conditions of parsed questions; None: none has any."""
    parts = [[question.parsed.verified for question in questions], [question.parsed.phrases for question in questions]]
    conditions = conditions_of(questions)
    if conditions is None and not any(map(any, parts)):
        return None
    arrays: list[np.ndarray] = []
    for of_questions in parts:
        arrays.append(offsets_of([len(some) for some in of_questions]))
        arrays.append(offsets_of([len(one) for some in of_questions for one in some]))
        arrays.append(np.array([term for some in of_questions for one in some for term in one], np.int64))
    return VerifiedQuestions._make([*arrays, conditions])
