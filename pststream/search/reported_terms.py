"""Give objects the terms that count in reports of frequent terms: words, and pairs of characters without blanks.

In scripts that do not part words by blanks each character is a word, of which pairs of neighbours count instead. A
segment whose texts have such characters gets other terms, derived once from the words of its texts in order and kept in
the node's cache; all other segments are as they are.
"""

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrays import distinct_values, find_among, make_read_only, offsets_of
from pststream.base.arrow_columns import utf8_of
from pststream.kernels.parsing.texts import hash_texts
from pststream.kernels.questions.codes import unpack_numbers
from pststream.queries.text.phrases import WordSequences, are_of_runs, find_pairs
from pststream.search import object_segments
from pststream.search.object_segments import ObjectSegment, list_terms, place_terms
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.verified_questions import SegmentTexts, texts_of_segment
from pststream.storage.array_cache import ArrayCache

LAYOUT = f"{object_segments.LAYOUT}-reports-1"
"""Name and version of the arrays, part of the name of the cache folder."""

_ROWS = 65_536
"""Texts that are searched for pairs at a time."""


@lru_cache(maxsize=4)
def reports_cache(folder: str, max_bytes: int) -> ArrayCache:
    """Return the process's cache of terms of reports; its folder is one of those of segments of objects."""
    return ArrayCache(folder, max_bytes, LAYOUT)


def reported_objects(snapshot: ObjectSnapshot) -> ObjectSnapshot:
    """Return the objects of a snapshot that was made from data files, with the terms that count in reports."""
    if snapshot.reported is None:
        numbers = range(len(snapshot.segments))
        segments = [_reported_segment(snapshot, number) for number in numbers]
        snapshot.reported = ObjectSnapshot(segments, snapshot.sources, snapshot.term_weights)
        snapshot.reported.reported = snapshot.reported
    return snapshot.reported


def _reported_segment(snapshot: ObjectSnapshot, number: int) -> ObjectSegment:
    segment, weights = snapshot.segments[number], snapshot.term_weights
    # Characters of these scripts have three bytes or four, whose first is 0xE0 or more.
    if not len(segment.words) or segment.words.max() < 0xE0:
        return segment
    of_runs = np.flatnonzero(are_of_runs(segment.word_offsets, segment.words))
    if not len(of_runs):
        return segment
    cache = reports_cache(weights.cache_dir, weights.cache_bytes)
    arrays = cache.arrays(
        snapshot.sources[number], lambda: _build(segment, texts_of_segment(snapshot, number), of_runs)
    )
    return segment._replace(**arrays)


def _build(segment: ObjectSegment, texts: SegmentTexts, of_runs: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays of a segment that change if pairs of its terms `of_runs` (places, ascending) replace these."""
    rows, pairs = _pairs_of_rows(texts, of_runs)
    distinct = distinct_values(pairs)
    names = segment.words_of(of_runs)
    first, second = (names.take(pa.array(one)) for one in np.divmod(distinct, len(of_runs)))
    pair_words = pc.binary_join_element_wise(first, second, pa.scalar("", pa.large_string()))
    count = len(segment.offsets) - 1
    own = unpack_numbers(segment.row_terms[:-1]).astype(np.int64)
    stays = np.ones(len(segment.terms), bool)
    stays[of_runs] = False
    kept = np.flatnonzero(stays)
    number_of, counts = np.cumsum(stays) - 1, stays[own]
    owner = np.repeat(np.arange(count), np.diff(segment.offsets))[counts]
    owner = np.concatenate([owner, rows])
    numbers = np.concatenate([number_of[own[counts]], len(kept) + find_among(pairs, distinct)[0]])
    ids = np.concatenate([segment.terms[kept], hash_texts(*utf8_of(pair_words))])
    words = pa.concat_arrays([segment.words_of(kept), pair_words])
    of_tier, tiers, places = place_terms(ids, numbers)
    offsets = offsets_of(np.bincount(owner, minlength=count)).astype(np.int32)
    row_terms = places[np.argsort(owner, kind="stable")]
    listed = list_terms(segment.codes.copy(), segment.times.copy(), offsets, row_terms, tiers)
    del listed["rows"]
    word_bytes, word_offsets = utf8_of(words.take(pa.array(of_tier)))
    arrays = {"terms": ids[of_tier], "words": word_bytes, "word_offsets": word_offsets, **listed}
    make_read_only(arrays.values())
    return arrays


def _pairs_of_rows(texts: SegmentTexts, of_runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that have pairs of neighbours of some words, and the pairs: int64[n] each.

    A pair is the place of its first word in `of_runs` times their number, plus that of its second word.
    """
    count = len(texts.part_offsets) - 1
    most = max(1, min(_ROWS, (1 << 62) // (len(of_runs) * len(of_runs))))
    rows, pairs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for begin in range(0, count, most):
        part_offsets = texts.part_offsets[begin : begin + most + 1]
        word_offsets = texts.word_offsets[part_offsets[0] : part_offsets[-1] + 1]
        words = texts.words[word_offsets[0] : word_offsets[-1]]
        some = WordSequences(part_offsets - part_offsets[0], word_offsets - word_offsets[0], words)
        text, pair = find_pairs(some, of_runs)
        rows.append(begin + text)
        pairs.append(pair)
    return np.concatenate(rows), np.concatenate(pairs)
