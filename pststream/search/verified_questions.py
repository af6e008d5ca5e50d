"""Test what the arrays of object segments do not decide, of phrases and exclusions, at the objects that were found.

The words of the texts of a segment, in order, are derived once from its data files and kept in the node's cache.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base.arrays import distinct_values, make_read_only, offsets_of
from pststream.base.arrow_columns import csr, one_array, take_lists
from pststream.kernels.matching.verify_clauses import verify_clauses
from pststream.matching.verified_clauses import TEXT_COLUMNS
from pststream.queries.text.phrases import PhraseTable, WordSequences, add_terms, split_texts
from pststream.search import object_segments
from pststream.search.object_segments import ObjectSegment, row_order
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import TimedQuestion
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
def _cache(folder: str, max_bytes: int) -> ArrayCache:
    return ArrayCache(folder, max_bytes, LAYOUT)


def texts_of_segment(snapshot: ObjectSnapshot, number: int) -> SegmentTexts:
    """Return the words of the texts of a segment of a snapshot that was made from data files."""
    paths, segment, weights = snapshot.sources[number], snapshot.segments[number], snapshot.term_weights
    cache = _cache(weights.cache_dir, weights.cache_bytes)
    return SegmentTexts(**cache.arrays(paths, lambda: _build(paths, segment)._asdict()))


def _build(paths: Paths, segment: ObjectSegment) -> SegmentTexts:
    points, parts = [np.empty((2, 0))], list[WordSequences]()
    for path in paths:
        with open_parquet(path) as file:
            for group in range(file.metadata.num_row_groups):
                rows = file.read_row_group(group, ["lon", "lat", *TEXT_COLUMNS])
                points.append(np.stack([rows.column(name).to_numpy() for name in ("lon", "lat")]))
                text, breaks = (one_array(rows.column(name)) for name in TEXT_COLUMNS)
                parts.append(split_texts(text.cast(pa.string()), breaks.cast(pa.list_(pa.int32()))))
    part_offsets = offsets_of(np.concatenate([np.diff(part.part_offsets) for part in parts]))
    word_offsets = offsets_of(np.concatenate([np.diff(part.word_offsets) for part in parts]))
    places = segment.find_terms(np.concatenate([part.words for part in parts]))
    # Keys do not order them: withdrawn objects have another one in the segment of a snapshot.
    rows_of_segment = row_order(*np.hstack(points))
    part_offsets, order = take_lists((part_offsets, np.arange(len(word_offsets) - 1)), rows_of_segment)
    word_offsets, words = take_lists((word_offsets, places), order)
    return make_read_only(SegmentTexts(part_offsets, word_offsets, words))


class VerifiedQuestions(NamedTuple):
    """The verified clauses of a batch of questions, and their phrases: lists of lists of term ids.

    clause_offsets   int64[q+1]   slice of the clauses of each question
    literal_offsets  int64[c+1]   slice of the literals of each clause
    literals         int64[]      see kernels/matching/verify_clauses.py
    phrase_offsets, word_offsets, words   likewise, of the words of phrases
    """

    clause_offsets: np.ndarray
    literal_offsets: np.ndarray
    literals: np.ndarray
    phrase_offsets: np.ndarray
    word_offsets: np.ndarray
    words: np.ndarray

    @property
    def are_needed(self) -> np.ndarray:
        """Which questions have verified clauses: bool[q]."""
        return np.diff(self.clause_offsets) > 0

    def take(self, questions: np.ndarray) -> "VerifiedQuestions":
        """Return those of some questions (int64[n]), with all phrases."""
        clause_offsets, clauses = take_lists((self.clause_offsets, np.arange(len(self.literal_offsets) - 1)), questions)
        literals = take_lists((self.literal_offsets, self.literals), clauses)
        return VerifiedQuestions(clause_offsets, *literals, *self[3:])

    def hold(self, snapshot: ObjectSnapshot, question: np.ndarray, segment: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Return whether objects satisfy the clauses of questions: bool[n]; question, segment, row int64[n] each."""
        satisfied = np.ones(len(question), bool)
        phrases = PhraseTable(self.word_offsets, self.words)
        chosen = self.are_needed[question]
        for number in distinct_values(segment[chosen]).tolist():
            pairs = np.flatnonzero(chosen & (segment == number))
            rows, position = np.unique(row[pairs], return_inverse=True)
            offsets, terms = csr(object_columns(snapshot.segments[number], rows)["terms"])
            if len(phrases):
                texts = texts_of_segment(snapshot, number).take(snapshot.segments[number], rows)
                offsets, terms = add_terms(offsets, terms, *phrases.find(texts))
            satisfied[pairs] = verify_clauses(position, question[pairs], offsets, terms, *self[:3])
        return satisfied


def verified_of(questions: Sequence[TimedQuestion]) -> VerifiedQuestions | None:
    """Return the verified clauses and phrases of parsed questions; None: none has any."""
    parts = [[question.parsed.verified for question in questions], [question.parsed.phrases for question in questions]]
    if not any(parts[0]):
        return None
    arrays: list[np.ndarray] = []
    for of_questions in parts:
        arrays.append(offsets_of([len(some) for some in of_questions]))
        arrays.append(offsets_of([len(one) for some in of_questions for one in some]))
        arrays.append(np.array([term for some in of_questions for one in some for term in one], np.int64))
    return VerifiedQuestions(*arrays)
