"""Weigh words by a version of the term statistics, from the table `term_statistics`, without the kernels."""

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import TableReader
from pststream.ledgers.term_statistics import StatisticsVersion, statistics_in_force

_FRACTIONS = 65_536


class StoredWordWeights:
    """The weights of words by a version of the term statistics; those that were asked for are kept.

    A word weighs ln(1 + N / max(d, 1)), where d of N objects have it, rounded to a multiple of 1 / 65,536.
    """

    def __init__(self, reader: TableReader, statistics: StatisticsVersion) -> None:
        self._reader, self._statistics = reader, statistics
        self._terms, self._weights = np.empty(0, np.int64), np.empty(0)

    @property
    def version(self) -> int:
        """The version of the term statistics."""
        return self._statistics.version

    def of_terms(self, ids: np.ndarray) -> np.ndarray:
        """Return the weight of each term: float64[n]; `ids` int64[n]."""
        if not self.version:
            return np.ones(len(ids))
        terms, place = np.unique(ids, return_inverse=True)
        new = np.setdiff1d(terms, self._terms, assume_unique=True)
        if len(new):
            known = np.append(self._terms, new)
            order = np.argsort(known)
            self._terms, self._weights = known[order], np.append(self._weights, self._read(new))[order]
        return np.asarray(self._weights[np.searchsorted(self._terms, terms)][place])

    def _read(self, terms: np.ndarray) -> np.ndarray:
        """Return the weights of terms (int64[n], ascending, distinct) from the table."""
        wanted = (pds.field("statistics_version") == self.version) & pds.field("term_id").isin(pa.array(terms))
        rows = self._reader.read(names.TERM_STATISTICS, ("term_id", "documents"), wanted)
        documents = np.zeros(len(terms))
        documents[np.searchsorted(terms, rows.column("term_id").to_numpy())] = rows.column("documents").to_numpy()
        weights = np.log1p(self._statistics.objects / np.maximum(documents, 1))
        return np.asarray(np.round(weights * _FRACTIONS) / _FRACTIONS)


def word_weights(reader: TableReader, up_to: int) -> StoredWordWeights:
    """Return the weights of words at the position `up_to` of the request log."""
    return StoredWordWeights(reader, statistics_in_force(reader.home, up_to))
