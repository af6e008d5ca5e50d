"""Read the subscriptions with memory from the request log, and keep them as arrays in the node's cache.

A task asks for the subscriptions of its bucket that a range of requests inserts, for the deletions in such a range, and
for the queries of subscriptions by their keys.
"""

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.answers.bucket_file import spread_kept
from pststream.answers.contract import Subscriptions, bucket_of
from pststream.base import names
from pststream.base.arrays import distinct_values, is_among, offsets_of
from pststream.base.arrow_columns import integers, lists, one_array, take_lists
from pststream.kernels.answers.fold_rows import rows_of_keys
from pststream.pipeline.index.build_index import ending_requests
from pststream.queries.kinds.registry import MOST_TIMES_K, ranked_answers
from pststream.search.stored_conditions import AskedConditions
from pststream.search.verified_questions import VerifiedQuestions
from pststream.storage.array_cache import ArrayCache, Paths
from pststream.storage.parquet_files import open_parquet, without_views

COLUMNS = (
    *("request_key", "op", "subscription_key", "replaced_key", "effective_at", "expires_at", "kind", "k", "window_us"),
    *("window_objects", "clauses", "verified", "phrases"),
)
"""Columns of `requests` that are read, with the numbers of the kinds."""

_building = threading.Lock()


class Queries(NamedTuple):
    """Insertions, by ascending key. All arrays but those of lists have n elements.

    key             int64             request key
    kind            int8              place of the kind in `ranked_answers`
    numbers         float64[n,most]   the numbers of the kind, then not a number
    k               int64
    window_micros   int64             length of a time window; 0: none
    window_objects  int64             length of a count window; 0: none
    created_at      int64             microseconds
    expires_at      int64             microseconds, names.NEVER_US: never
    clause_offsets  int64[n+1]        slice of the clauses of each query, in `literal_offsets`
    literal_offsets int64[clauses+1]  slice of the terms of each clause, in `terms`
    terms           int64[]           term ids
    verified_clauses, verified_literals, verified   likewise, of the verified clauses
    phrase_offsets, word_offsets, phrases           likewise, of the words of phrases
    """

    key: np.ndarray
    kind: np.ndarray
    numbers: np.ndarray
    k: np.ndarray
    window_micros: np.ndarray
    window_objects: np.ndarray
    created_at: np.ndarray
    expires_at: np.ndarray
    clause_offsets: np.ndarray
    literal_offsets: np.ndarray
    terms: np.ndarray
    verified_clauses: np.ndarray
    verified_literals: np.ndarray
    verified: np.ndarray
    phrase_offsets: np.ndarray
    word_offsets: np.ndarray
    phrases: np.ndarray

    @property
    def are_scored(self) -> np.ndarray:
        """Which of them are of a kind whose values depend on the term statistics: bool[n]."""
        return weighed_kinds()[self.kind]


class Deletions(NamedTuple):
    """Deletions of subscriptions of any kind, in the order of the log: int64[n] each; times in microseconds."""

    request: np.ndarray
    key: np.ndarray
    at: np.ndarray


class _Group(NamedTuple):
    """The arrays of a group of data files.

    scored_words     int64[]   distinct words of the scored ones, ascending
    verified_scores  int64[]   keys of the scored ones with phrases or exclusions
    """

    queries: Queries
    deletions: Deletions
    scored_words: np.ndarray
    verified_scores: np.ndarray


class StandingQueries:
    """The subscriptions with memory in groups of data files of `requests`."""

    def __init__(self, groups: Sequence[Paths], cache: ArrayCache) -> None:
        self._groups, self._cache = groups, cache
        self._opened: list[_Group] = []

    def insertions(self, after: int, up_to: int, bucket: int, buckets: int) -> Subscriptions:
        """Return the subscriptions of a bucket that the requests after < key <= up_to insert."""
        parts = []
        for queries, *_ in self._arrays():
            low, high = np.searchsorted(queries.key, [after, up_to], "right")
            rows = low + np.flatnonzero(bucket_of(queries.key[low:high], buckets) == bucket)
            parts.append(_subscriptions(queries, rows))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        return Subscriptions(*(column[order] for column in columns))

    def deletions(self, after: int, up_to: int) -> tuple[np.ndarray, np.ndarray]:
        """Return keys and times of what the requests after < key <= up_to delete, of any bucket and kind."""
        parts = [np.empty((2, 0), np.int64)]
        for _, deletions, *_ in self._arrays():
            low, high = np.searchsorted(deletions.request, [after, up_to], "right")
            parts.append(np.stack([deletions.key[low:high], deletions.at[low:high]]))
        keys, times = np.hstack(parts)
        return keys, times

    def ended(self, requests: tuple[int, int], times: tuple[int, int]) -> np.ndarray:
        """Return the keys of subscriptions that end at a time after times[0] and up to times[1], and of those that
        requests after requests[0] and up to requests[1] delete as of times[1] or before: int64[n].
        """
        keys = [np.empty(0, np.int64)]
        for queries, deletions, *_ in self._arrays():
            keys.append(queries.key[_within(queries.expires_at, times)])
            is_new = _within(deletions.request, requests) & (deletions.at <= times[1])
            is_due = _within(deletions.at, times) & (deletions.request <= requests[1])
            keys.append(deletions.key[is_new | is_due])
        return np.concatenate(keys)

    def select(self, keys: np.ndarray) -> tuple[np.ndarray, Queries]:
        """Return the queries of subscriptions by their keys (int64[n], ascending, distinct).

        Returns which of them the log has, bool[n], as requests may have been erased; and their queries, in this order.
        """
        nothing = np.empty(0, np.int64)
        chosen, positions = [take_queries(queries, nothing) for queries, *_ in self._arrays()[:1]], [nothing]
        for queries, position, rows in self._find(keys):
            chosen.append(take_queries(queries, rows))
            positions.append(position)
        is_known = np.zeros(len(keys), bool)
        position = np.concatenate(positions)
        is_known[position] = True
        return is_known, take_queries(_concatenate(chosen), np.argsort(position))

    def kinds(self, keys: np.ndarray) -> np.ndarray:
        """Return the kind of each key (int64[n]), a place in `ranked_answers`: int8[n]; -1: the log lacks the key."""
        order = np.argsort(keys, kind="stable")  # takes hardly any time if they are in order
        ascending, kinds = keys[order], np.full(len(keys), -1, np.int8)
        for queries, position, rows in self._find(ascending):
            kinds[order[position]] = queries.kind[rows]
        return kinds

    def numbers(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the kind of each key (int64[n], ascending) as `kinds` does, and its numbers: float64[n,most]."""
        most = max(len(answers.numbers) for answers in ranked_answers().values())
        kinds, numbers = np.full(len(keys), -1, np.int8), np.full((len(keys), most), np.nan)
        for queries, position, rows in self._find(keys):
            kinds[position], numbers[position] = queries.kind[rows], queries.numbers[rows]
        return kinds, numbers

    def are_scored(self, keys: np.ndarray) -> np.ndarray:
        """Return which keys (int64[n]) are of subscriptions whose values depend on the term statistics: bool[n]."""
        return np.append(weighed_kinds(), False)[self.kinds(keys)]

    def are_scored_words(self, terms: np.ndarray) -> np.ndarray:
        """Return which term ids (int64[n]) are words of a scored subscription, also of one that has ended: bool[n]."""
        is_word = np.zeros(len(terms), bool)
        for group in self._arrays():
            is_word |= is_among(terms, group.scored_words)
        return is_word

    def have_verified_scores(self) -> bool:
        """Return whether a scored subscription, also one that has ended, has phrases or exclusions."""
        return any(len(group.verified_scores) for group in self._arrays())

    def _find(self, keys: np.ndarray) -> Iterator[tuple[Queries, np.ndarray, np.ndarray]]:
        """Yield the queries of each group that may have some of the keys (int64[n], ascending), the positions of those
        that it has, and their rows: int64[] each.
        """
        for queries, *_ in self._arrays():
            if len(queries.key):
                low, high = np.searchsorted(keys, queries.key[0]), np.searchsorted(keys, queries.key[-1], "right")
                if low < high:
                    rows = rows_of_keys(queries.key, keys[low:high])
                    position = np.flatnonzero(rows >= 0)
                    yield queries, low + position, rows[position]

    def _arrays(self) -> list[_Group]:
        """Return the arrays of all groups; of a group whose files have no subscription with memory, empty ones."""
        if not self._opened:
            self._opened = list(map(self._open, self._groups))
        return self._opened

    def _open(self, paths: Paths) -> _Group:
        with _building:  # the threads of a process build the arrays once
            arrays = self._cache.arrays(paths, partial(_build, paths))
        return _Group(
            Queries(*(arrays[name] for name in Queries._fields)),
            Deletions(*(arrays[f"deleted_{name}"] for name in Deletions._fields)),
            arrays["scored_words"],
            arrays["verified_scores"],
        )


def _within(values: np.ndarray, bounds: tuple[int, int]) -> np.ndarray:
    return (values > bounds[0]) & (values <= bounds[1])


def layout() -> str:
    """Return the name and version of the arrays in the node's cache; kinds are numbered in the order of their names."""
    return "-".join(("queries-6", *ranked_answers()))


def weighed_kinds() -> np.ndarray:
    """Return of which kinds of `ranked_answers` the values depend on the term statistics: bool[kinds]."""
    return np.array([answers.is_weighed for answers in ranked_answers().values()], np.bool_)


def _subscriptions(queries: Queries, rows: np.ndarray) -> Subscriptions:
    key, k, created = queries.key[rows], queries.k[rows], queries.created_at[rows]
    window_micros, window_objects = queries.window_micros[rows], queries.window_objects[rows]
    has_window = (window_micros > 0) | (window_objects > 0)
    return Subscriptions(
        key=key,
        k=k.astype(np.int32),
        kept=entries_kept(key, k, has_window),
        window_micros=window_micros,
        window_objects=window_objects,
        counts_from=np.where(has_window, names.NO_TIME, created),
        created_at=created,
        end_at=queries.expires_at[rows],
    )


def entries_kept(key: np.ndarray, k: np.ndarray, has_window: np.ndarray) -> np.ndarray:
    """Return how many entries an evaluation keeps for each subscription: int32[n].

    Without a window no object leaves, so k are enough. With one, about half as many more are kept, spread by the key,
    but no more than a buffer has room for.
    """
    kept = spread_kept(key, k, k + k // 2 + 1)
    return np.where(has_window, np.minimum(kept, MOST_TIMES_K * k), k).astype(np.int32)


def _build(paths: Paths) -> dict[str, np.ndarray]:
    # A row takes several times more memory in Arrow than in the arrays: only one row group is in Arrow at a time.
    parts = [_arrays_of(rows) for path in paths for rows in _read(path)]
    queries = _concatenate([queries for queries, _ in parts])
    deletions = Deletions(*map(np.concatenate, zip(*(deleted for _, deleted in parts), strict=True)))
    if np.any(np.diff(queries.key) < 0):
        queries = take_queries(queries, np.argsort(queries.key, kind="stable"))
    order = np.argsort(deletions.request, kind="stable")
    scored = take_queries(queries, np.flatnonzero(queries.are_scored))
    return {
        **queries._asdict(),
        **{f"deleted_{name}": column[order] for name, column in deletions._asdict().items()},
        "scored_words": distinct_values(scored.terms),
        "verified_scores": scored.key[(np.diff(scored.verified_clauses) > 0) | (np.diff(scored.phrase_offsets) > 0)],
    }


def _arrays_of(rows: pa.Table) -> tuple[Queries, Deletions]:
    """Return the insertions of kinds with memory, and all deletions."""
    kind_index = pc.index_in(rows.column("kind"), pa.array(list(ranked_answers()), pa.string()))
    kind, op = kind_index.fill_null(-1).to_numpy().astype(np.int8), rows.column("op").to_numpy()
    deleted = ending_requests(rows)
    deletions = Deletions(*(integers(deleted, name) for name in ("request_key", "subscription_key", "effective_at")))
    is_insertion = (kind >= 0) & (op == "insert")
    inserted, kind = rows.filter(pa.array(is_insertion)), kind[is_insertion]
    queries = Queries(
        key=integers(inserted, "request_key"),
        kind=kind,
        numbers=_numbers(inserted, kind),
        k=integers(inserted, "k"),
        window_micros=integers(inserted, "window_us", 0),
        window_objects=integers(inserted, "window_objects", 0),
        created_at=integers(inserted, "effective_at"),
        expires_at=integers(inserted, "expires_at", names.NEVER_US),
        **{
            name: values
            for place, column in enumerate(LISTS)
            for name, values in zip(_list_fields(place), _lists_of(one_array(inserted.column(column))), strict=True)
        },
    )
    return queries, deletions


def _list_fields(place: int) -> tuple[str, ...]:
    first = len(Queries._fields) - 3 * (len(LISTS) - place)
    return Queries._fields[first : first + 3]


def _lists_of(column: pa.ListArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the offsets of lists and of lists in them, and their values; a null has no list."""
    items = column.flatten()
    lengths = (one.value_lengths().fill_null(0).to_numpy() for one in (column, items))
    return *map(offsets_of, lengths), items.flatten().to_numpy(zero_copy_only=False).astype(np.int64)


def _numbers(rows: pa.Table, kind: np.ndarray) -> np.ndarray:
    ranked = list(ranked_answers().values())
    numbers = np.full((len(kind), max(len(answers.numbers) for answers in ranked)), np.nan)
    for index, answers in enumerate(ranked):
        own = np.flatnonzero(kind == index)
        for column, name in enumerate(answers.numbers):
            numbers[own, column] = rows.column(name).to_numpy().astype(np.float64)[own]
    return numbers


CLAUSES = pa.list_(pa.list_(pa.int64()))
"""Type of clauses in memory; their items have another name in files."""

LISTS = ("clauses", "verified", "phrases")
"""Columns of lists of lists, each with three of the last fields of `Queries`."""


def _read(path: str) -> Iterator[pa.Table]:
    """Yield the columns of each row group of a file."""
    columns = list(dict.fromkeys((*COLUMNS, *(name for one in ranked_answers().values() for name in one.numbers))))
    with open_parquet(path) as file:
        for group in range(file.metadata.num_row_groups):
            rows = without_views(file.read_row_group(group, columns))
            for name in LISTS:
                index = rows.schema.get_field_index(name)
                rows = rows.set_column(index, name, rows.column(index).cast(CLAUSES))
            yield rows


def take_queries(queries: Queries, rows: np.ndarray) -> Queries:
    """Return some queries, in the order of `rows`."""
    columns = [column[rows] for column in queries[:_PLAIN]]
    for outer, inner, values in _list_groups(queries):
        offsets, items = take_lists((outer, np.arange(len(inner) - 1)), rows)
        columns += [offsets, *take_lists((inner, values), items)]
    return Queries._make(columns)


_PLAIN = len(Queries._fields) - 3 * len(LISTS)


def _list_groups(queries: Queries) -> Iterator[tuple[np.ndarray, ...]]:
    return (queries[first : first + 3] for first in range(_PLAIN, len(queries), 3))


def clauses_of(queries: Queries, column: str = "clauses") -> pa.ListArray:
    """Return a column of LISTS of queries as lists of lists of term ids; null: none."""
    outer, inner, values = list(_list_groups(queries))[LISTS.index(column)]
    of_rows = lists(outer, np.arange(len(inner) - 1)).offsets
    return pa.ListArray.from_arrays(of_rows, lists(inner, values), mask=pa.array(np.diff(outer) == 0))


def verified_queries(queries: Queries, conditions: AskedConditions | None = None) -> VerifiedQuestions | None:
    """Return what is verified of queries, their conditions too; None: nothing."""
    _, verified, phrases = _list_groups(queries)
    is_any = conditions is not None or len(queries.verified) + len(queries.phrases)
    return VerifiedQuestions._make([*verified, *phrases, conditions]) if is_any else None


def _concatenate(parts: list[Queries]) -> Queries:
    columns = [np.concatenate(of_parts) for of_parts in zip(*(part[:_PLAIN] for part in parts), strict=True)]
    for groups in zip(*map(_list_groups, parts), strict=True):
        outer, inner = (offsets_of(np.concatenate([np.diff(group[at]) for group in groups])) for at in (0, 1))
        columns += [outer, inner, np.concatenate([values for _, _, values in groups])]
    return Queries._make(columns)
