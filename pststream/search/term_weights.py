"""Weigh words by a version of the term statistics, and derive the arrays that score texts in the node's cache.

A word weighs ln(1 + N / max(d, 1)), where d of N objects have it, rounded to a multiple of 1 / FRACTIONS; in version 0
it weighs 1. So sums of squared weights are exact in float64 in any order, up to 2,000 words and more, and equal scores
are ties.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base.arrays import make_read_only
from pststream.base.errors import RetryableError
from pststream.kernels.matching.postings import find_values, make_term_table
from pststream.kernels.questions.codes import pack_numbers, unpack_numbers
from pststream.kernels.questions.scores import FREQUENT, TextArrays, list_short_texts, make_looks, sum_squares
from pststream.search import object_segments
from pststream.search.object_segments import ObjectSegment
from pststream.storage.array_cache import ArrayCache, Paths
from pststream.storage.parquet_files import open_parquet

FRACTIONS = 65_536

LAYOUT = f"weights-3-of-{object_segments.LAYOUT}"
"""Name and version of the arrays, part of the name of the cache folder."""


@dataclass(frozen=True)
class TermWeights:
    """The weights of words by one version of the term statistics; travels pickled.

    version, objects, terms   see tables/log_events.py
    files                     data files of the table `term_statistics` that have the version
    cache_dir, cache_bytes    of the node's cache
    """

    version: int = 0
    objects: int = 0
    terms: int = 0
    files: Paths = ()
    cache_dir: str = ""
    cache_bytes: int = 0

    def of_terms(self, ids: np.ndarray) -> np.ndarray:
        """Return the weight of each term: float32[n]; `ids` int64[n]. Raises RetryableError if counts are missing."""
        if not self.version:
            return np.ones(len(ids), np.float32)
        cache = _weights_cache(self.cache_dir, self.cache_bytes)
        known = cache.arrays(self._key, self._read)
        positions = find_values(ids, known["table"])
        return np.where(positions >= 0, known["weights"][positions], self._weights(np.zeros(1)))

    def of_segment(self, paths: Paths, segment: ObjectSegment) -> TextArrays:
        """Return the arrays that score the texts of a segment of these data files (kernels/questions/scores.py);
        without files they are not kept in the cache.
        """
        if not paths:
            return self._weigh(segment)
        cache = _weights_cache(self.cache_dir, self.cache_bytes)
        return TextArrays(**cache.arrays((*paths, *self._key), lambda: self._weigh(segment)._asdict()))

    @property
    def _key(self) -> Paths:
        return *self.files, f"version {self.version} of {self.objects} objects"

    def _weigh(self, segment: ObjectSegment) -> TextArrays:
        row_terms = unpack_numbers(segment.row_terms[:-1])
        squares = sum_squares(segment.offsets, row_terms, self.of_terms(segment.terms))
        rows = len(squares)
        floors = np.partition(squares, rows // 8)[rows // 8 :][:1]
        frequent = np.flatnonzero(np.diff(segment.posting_offsets) >= FREQUENT).astype(np.int32)
        short = list_short_texts(segment.posting_offsets, segment.postings, squares, floors[0], frequent)
        least, offsets, short_rows = short[0], short[1], pack_numbers(short[2], rows)
        looks = make_looks(segment.codes, squares, segment.offsets, row_terms)
        return make_read_only(TextArrays(looks, floors, frequent, least, offsets, short_rows))

    def _read(self) -> dict[str, np.ndarray]:
        """Return the place of each term (kernels/matching/postings.py), and the weight of each: float32[n]."""
        ids, documents = read_counts(self.files, self.version)
        if len(ids) != self.terms:
            raise RetryableError(f"term statistics {self.version} are no longer stored", "run this again")
        return {"table": make_term_table(ids, np.arange(len(ids))), "weights": self._weights(documents)}

    def _weights(self, documents: np.ndarray) -> np.ndarray:
        weights = np.log1p(self.objects / np.maximum(documents, 1))
        return (np.round(weights * FRACTIONS) / FRACTIONS).astype(np.float32)


EQUAL_WEIGHTS = TermWeights()
"""Version 0: every word weighs 1."""


def read_counts(files: Paths, version: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the terms of a version of the statistics, ascending, and the objects that have each: int64[n] each."""
    parts = [pa.table({"term_id": pa.array([], pa.int64()), "documents": pa.array([], pa.int64())})]
    for path in files:
        with open_parquet(path) as file:
            rows = file.read(["statistics_version", "term_id", "documents"])
        parts.append(rows.filter(pds.field("statistics_version") == version).select(["term_id", "documents"]))
    rows = pa.concat_tables(parts).sort_by("term_id")
    return rows.column("term_id").to_numpy(), rows.column("documents").to_numpy()


@lru_cache(maxsize=4)
def _weights_cache(folder: str, max_bytes: int) -> ArrayCache:
    return ArrayCache(folder, max_bytes, LAYOUT)
