"""Rank stored objects for a subscription and weigh words, without the kernels, for `explain`.

Every object up to the end of the last batch is compared, so the ranking checks the stored answer. At most MAX_SEARCHED
rows are read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.queries.conditions import as_attributes, first_failed_test
from pststream.queries.kinds.contract import Description, ObjectRows, RankedAnswers, Window, WordWeights, split_text
from pststream.queries.kinds.keywords import has_phrases
from pststream.reports.reading.pairs import flatten_lists
from pststream.tables.delta_tables import TableReader
from pststream.tables.log_events import StatisticsVersion, WithdrawnRows, statistics_in_force

MAX_SEARCHED = 4_000_000
"""Greatest number of objects that are compared for one subscription."""

CLOSE = 1e-6
"""Values that differ by less than this share, or by less than this, may be equal: the kernels round in other places."""

_COLUMNS = ("object_key", "ts", "lon", "lat", "terms")


@dataclass(frozen=True)
class AnswerEnd:
    """The end of the last batch, on which answers depend: positions in both logs, stream time in microseconds."""

    batch_id: int
    objects_to: int
    requests_to: int
    stream_time: int
    withdrawn: WithdrawnRows


class Place(NamedTuple):
    """How many objects come before one: by the rule, and the least and the most if close values are taken as equal."""

    before: int
    least: int
    most: int


@dataclass(frozen=True)
class ObjectRanking:
    """The objects that satisfy the words and lie in the window of a subscription, n of them in any order.

    key, ts        int64[n]
    value          float32[n]
    after          (ts, key) after which objects lie in the window; None: all do
    complete       whether all objects were compared
    """

    key: np.ndarray
    ts: np.ndarray
    value: np.ndarray
    after: tuple[int, int] | None
    complete: bool

    def place(self, key: int, ts: int, value: float) -> Place:
        """Return the place of an object that is, or would be, in the window."""
        others = self.key != key
        newer = (self.ts > ts) | ((self.ts == ts) & (self.key > key))
        equal, margin = self.value == np.float32(value), CLOSE * max(1.0, abs(value))
        before = others & ((self.value < value) | (equal & newer))
        least = others & ((self.value < value - margin) | (equal & newer))
        most = others & (self.value < value + margin) & ~(equal & ~newer)
        return Place(int(before.sum()), int(least.sum()), int(most.sum()))


def rank_objects(
    reader: TableReader,
    answers: RankedAnswers,
    asked: Description,
    counts_from: int,
    window: Window,
    end: AnswerEnd,
    weights: WordWeights,
    where: str | None = None,
) -> ObjectRanking:
    """Rank the objects for a subscription after a batch.

    counts_from   `created_at` in microseconds: without a window, earlier objects do not count
    where         its condition on attributes in the canonical form
    """
    first = end.stream_time - window.micros + 1 if window.micros is not None else counts_from
    wanted = pds.field("object_key") <= end.objects_to
    if window.objects is None:
        wanted &= pds.field("ts") >= pa.scalar(first, pa.int64()).cast(TIME)
    chosen_rows, values = [np.empty((2, 0), np.int64)], [np.empty(0, np.float32)]
    times, searched, complete = [np.empty((2, 0), np.int64)], 0, True
    for rows, attributes in read_objects(reader, wanted, where, has_phrases(asked.get("keywords"))):
        searched += len(rows.key)
        if searched > MAX_SEARCHED:
            complete = False
            break
        counts = ~end.withdrawn.contain(rows.key)
        value = answers.values(asked, rows, weights)
        chosen = that_meet(where, attributes, counts & ~np.isnan(value))
        chosen_rows.append(np.stack([rows.key[chosen], rows.ts[chosen]]))
        values.append(value[chosen])
        if window.objects is not None:
            times.append(np.stack([rows.key[counts], rows.ts[counts]]))
    (key, ts), value = np.concatenate(chosen_rows, axis=1), np.concatenate(values)
    if window.objects is None:
        return ObjectRanking(key, ts, value, (first - 1, names.MAX_INT64), complete)
    recent = np.concatenate(times, axis=1)
    if recent.shape[1] <= window.objects:
        return ObjectRanking(key, ts, value, None, complete)
    # The last object before the most recent ones.
    last_key, last_ts = recent[:, np.lexsort(recent)[-window.objects - 1]].tolist()
    after = (last_ts, last_key)
    inside = (ts > after[0]) | ((ts == after[0]) & (key > after[1]))
    return ObjectRanking(key[inside], ts[inside], value[inside], after, complete)


def read_objects(
    reader: TableReader, wanted: pds.Expression, where: str | None = None, with_texts: bool = False
) -> Iterator[tuple[ObjectRows, pa.Array | None]]:
    """Yield the objects that pass a filter, the latest files first, and for a condition on attributes these."""
    columns = (*_COLUMNS, *(("attributes",) if where else ()), *(("text", "text_breaks") if with_texts else ()))
    for _, file in reader.files(names.OBJECTS, "object_key", wanted, greatest=True):
        for batch in reader.batches_of(names.OBJECTS, file, columns, wanted):
            key, ts, lon, lat, terms, *others = batch.columns
            attributes = others.pop(0) if where else None
            times = ts.cast(pa.int64()).to_numpy()
            texts = zip(*(column.to_pylist() for column in others), strict=True)
            parts = [split_text(text or "", breaks or ()) for text, breaks in texts]
            rows = ObjectRows(key.to_numpy(), times, lon.to_numpy(), lat.to_numpy(), *flatten_lists(terms), parts)
            yield rows, attributes


def that_meet(where: str | None, attributes: pa.Array | None, rows: np.ndarray) -> np.ndarray:
    """Return which of some objects (bool[n]) satisfy a condition on their attributes: bool[n]."""
    if where is None or attributes is None:
        return rows
    met = rows.copy()
    tested = attributes.filter(pa.array(rows)).to_pylist()
    met[rows] = [first_failed_test(where, as_attributes(one)) is None for one in tested]
    return met


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
            wanted = (pds.field("statistics_version") == self.version) & pds.field("term_id").isin(pa.array(new))
            rows = self._reader.read(names.TERM_STATISTICS, ("term_id", "documents"), wanted)
            documents = np.zeros(len(new))
            documents[np.searchsorted(new, rows.column("term_id").to_numpy())] = rows.column("documents").to_numpy()
            weights = np.log1p(self._statistics.objects / np.maximum(documents, 1))
            weights = np.round(weights * 65_536) / 65_536
            self._terms, self._weights = known[order], np.append(self._weights, weights)[order]
        return np.asarray(self._weights[np.searchsorted(self._terms, terms)][place])


def word_weights(reader: TableReader, up_to: int) -> StoredWordWeights:
    """Return the weights of words at the position `up_to` of the request log."""
    return StoredWordWeights(reader, statistics_in_force(reader.home, up_to))
