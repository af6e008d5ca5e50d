"""Find the `topk` subscriptions of a bucket that messages may enter; build, update and store their index.

The index is a few segments, each several times larger than the next. New subscriptions become a small segment; segments
that are not much larger are built again together with it. Thresholds change in place. A deleted subscription keeps its
postings, which no message passes, until its segment is built again.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from pststream.answers.bucket_file import boot_identity
from pststream.answers.contract import Values
from pststream.base.arrays import distinct_values, find_among, read_only
from pststream.base.atomic_files import write_atomically
from pststream.kernels.compile import cache_folder
from pststream.kernels.matching.postings import make_term_table
from pststream.kernels.questions.build_segment import gather_rows, number_terms
from pststream.kernels.questions.scores import sum_squares
from pststream.kernels.scored.fill_blocks import (
    bound_blocks,
    change_thresholds,
    fill_blocks,
    measure_postings,
    order_postings,
    sort_words,
)
from pststream.kernels.scored.find_candidates import MessageArrays, find_candidates, list_probes
from pststream.kernels.scored.index_arrays import BLOCK, IndexArrays
from pststream.storage.array_cache import KeptMappings, TornFileError, map_arrays, write_arrays

MAX_POSTINGS = (1 << 31) - 1


class ScoredSubscriptions(NamedTuple):
    """Subscriptions of the kind `topk`, n of them in any order.

    key        int64[n]    request key of the insertion
    lon, lat   float64[n]  degrees; lon is the `matched_lon`, here and in `Messages`
    alpha      float64[n]  share of the place in the score, 0 to 1
    scale      float64[n]  distance from which on the place gives nothing, metres
    threshold  float32[n]  greatest value that enters (answers/contract.py); infinity: all that share a word; -infinity:
               none
    offsets    int64[n+1]  slice of `terms` of each subscription
    terms      int64[m]    term ids of its words, each once
    weights    float32[m]  their weights, above 0; a word has one weight in all subscriptions
    """

    key: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    alpha: np.ndarray
    scale: np.ndarray
    threshold: np.ndarray
    offsets: np.ndarray
    terms: np.ndarray
    weights: np.ndarray


Marks = Callable[[ScoredSubscriptions], np.ndarray]
"""Returns which words of subscriptions have postings in an index: bool[m]."""


def build_scored_segment(subscriptions: Sequence[ScoredSubscriptions], marks: Marks | None = None) -> IndexArrays:
    """Return the arrays of a segment (kernels/scored/index_arrays.py); keys are distinct. marks None: all words.

    Raises ValueError for 2^31 postings or more.
    """
    joined = _join(subscriptions)
    if len(joined.terms) > MAX_POSTINGS:
        raise ValueError(f"a segment of the topk index has at most {MAX_POSTINGS} postings, not {len(joined.terms)}")
    by_key = np.argsort(joined.key)
    columns = (joined.lon, joined.lat, joined.alpha, joined.scale)
    records = np.column_stack([column[by_key] for column in columns]).astype(np.float64, copy=False)
    thresholds = joined.threshold[by_key].astype(np.float32, copy=False)
    ids, weights, numbers = _in_order(joined.terms, joined.weights)
    word_offsets, words = gather_rows(by_key, joined.offsets, numbers)
    sort_words(word_offsets, words)
    squares = sum_squares(word_offsets, words, weights)
    rows, signatures = measure_postings(records, squares, thresholds, word_offsets, words, ids, weights)
    posted: slice | np.ndarray = slice(None)
    if marks is not None:
        sorted_ = (joined.key[by_key], *records.T, thresholds, word_offsets, ids[words], weights[words])
        posted = np.flatnonzero(marks(ScoredSubscriptions(*sorted_))).astype(np.int32)
    posting_offsets = _offsets(np.bincount(words[posted], minlength=len(ids)))
    block_offsets = _offsets(-(-np.diff(posting_offsets) // BLOCK))
    chunk_offsets = _offsets(-(-np.diff(block_offsets) // BLOCK))
    order = order_postings(posting_offsets, words[posted], rows[posted])
    if isinstance(posted, np.ndarray):
        order = posted[order]
    places = np.full(len(words), -1, np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    owners = np.repeat(np.arange(len(by_key), dtype=np.int32), np.diff(word_offsets))
    filled = fill_blocks(posting_offsets, block_offsets, order, rows)
    block_bounds, chunk_bounds = bound_blocks(posting_offsets, block_offsets, chunk_offsets, filled)
    return IndexArrays(
        keys=joined.key[by_key],
        records=records,
        squares=squares,
        thresholds=thresholds,
        word_offsets=word_offsets,
        words=words,
        places=places,
        ids=ids,
        weights=weights,
        table=make_term_table(ids, np.arange(len(ids))),
        posting_offsets=posting_offsets,
        block_offsets=block_offsets,
        chunk_offsets=chunk_offsets,
        numbers=filled,
        signatures=signatures[order],
        subscriptions=owners[order],
        block_bounds=block_bounds,
        chunk_bounds=chunk_bounds,
    )


def subscriptions_of(index: IndexArrays) -> ScoredSubscriptions:
    """Return the subscriptions of a segment that a message may enter: those whose threshold is not -infinity."""
    return take_subscriptions(index, np.flatnonzero(index.thresholds > -np.inf))


def take_subscriptions(index: IndexArrays, rows: np.ndarray) -> ScoredSubscriptions:
    """Return the subscriptions of a segment in some rows: int[n]."""
    offsets, words = gather_rows(rows, index.word_offsets, index.words)
    lon, lat, alpha, scale = index.records[rows].T
    terms, weights = index.ids[words], index.weights[words]
    return ScoredSubscriptions(
        index.keys[rows], lon, lat, alpha, scale, index.thresholds[rows], offsets, terms, weights
    )


def rows_without_postings(index: IndexArrays, rows: np.ndarray, marks: Marks) -> np.ndarray:
    """Return those of some rows of a segment (int[n]) that lack a posting that `marks` asks for: int[]."""
    _, own = gather_rows(rows, index.word_offsets, np.arange(len(index.words), dtype=np.int32))
    chosen = take_subscriptions(index, rows)
    is_missing = marks(chosen) & (index.places[own] < 0)
    owner = np.repeat(np.arange(len(rows)), np.diff(chosen.offsets))
    return rows[distinct_values(owner[is_missing])]


def _join(parts: Sequence[ScoredSubscriptions]) -> ScoredSubscriptions:
    if len(parts) == 1:
        return parts[0]
    joined = ScoredSubscriptions(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    return joined._replace(offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def _split(subscriptions: ScoredSubscriptions) -> Iterator[ScoredSubscriptions]:
    """Yield the subscriptions, in their order, in parts of MAX_POSTINGS words at most."""
    *columns, offsets, terms, weights = subscriptions
    low = 0
    while low < len(subscriptions.key):
        high = int(np.searchsorted(offsets, int(offsets[low]) + MAX_POSTINGS, "right")) - 1
        of_words = slice(offsets[low], offsets[high])
        part = [column[low:high] for column in columns]
        part += [offsets[low : high + 1] - offsets[low], terms[of_words], weights[of_words]]
        yield ScoredSubscriptions(*part)
        low = high


def _in_order(terms: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct terms, greatest weight first and then by id, their weights, and the place of each term."""
    distinct, numbers = number_terms(terms)
    weight_of = np.empty(len(distinct), np.float32)
    weight_of[numbers] = weights
    order = np.lexsort((distinct, -weight_of))
    place_of = np.empty(len(distinct), np.int32)
    place_of[order] = np.arange(len(distinct), dtype=np.int32)
    return distinct[order], weight_of[order], place_of[numbers]


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


RATIO = 4
"""A segment is at least this many times larger than the next one."""


class Messages(NamedTuple):
    """Objects of a batch, q of them in any order.

    key      int64[q]      object key
    ts       int64[q]      microseconds
    lon,lat  float64[q]    degrees
    offsets  int64[q+1]    slice of `terms` of each object, from 0
    terms    int64[]       term ids of all its words, each once
    weights  float32[]     their weights, in the version of the term statistics of the subscriptions
    """

    key: np.ndarray
    ts: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    offsets: np.ndarray
    terms: np.ndarray
    weights: np.ndarray


Weighed = TypeVar("Weighed", ScoredSubscriptions, Messages)


def take_rows(table: Weighed, rows: np.ndarray) -> Weighed:
    """Return some subscriptions or messages (int[n]), in the order of `rows`."""
    *columns, offsets, terms, weights = table
    offsets, positions = gather_rows(rows, offsets, np.arange(len(terms), dtype=np.int32))
    taken = [*(column[rows] for column in columns), offsets, terms[positions], weights[positions]]
    return type(table)(*taken)


class ScoredIndex:
    """The index of the `topk` subscriptions of a bucket or of a unit of a plan, for one version of the term statistics.

    segments  the largest first, but for those that have as many words as a segment can have
    marks     which words have postings; None: all
    """

    def __init__(self, segments: Iterable[IndexArrays] = (), marks: Marks | None = None) -> None:
        self.segments, self.marks = list(segments), marks

    @property
    def subscriptions(self) -> int:
        """Number of subscriptions, without those that were removed."""
        return sum(int((segment.thresholds > -np.inf).sum()) for segment in self.segments)

    def insert(self, subscriptions: ScoredSubscriptions) -> None:
        """Add subscriptions, whose keys are not in the index; a segment has MAX_POSTINGS words at most."""
        for part in _split(subscriptions):
            parts, size, words = [part], len(part.key), len(part.terms)
            while self.segments and len(self.segments[-1].keys) < RATIO * size:
                if words + len(self.segments[-1].words) > MAX_POSTINGS:
                    break
                parts.append(subscriptions_of(self.segments.pop()))
                size += len(parts[-1].key)
                words += len(parts[-1].terms)
            self.segments.append(build_scored_segment(parts, self.marks))

    def delete(self, keys: np.ndarray) -> None:
        """Remove subscriptions by their keys (int64[n]); those that are not in the index are passed over."""
        self.change_thresholds(keys, np.full(len(keys), -np.inf, np.float32))

    def change_thresholds(self, keys: np.ndarray, thresholds: np.ndarray) -> None:
        """Set the thresholds of subscriptions; those that are not in the index, or deleted, are passed over.

        keys        int64[n]    each once
        thresholds  float32[n]  greatest value that enters; infinity: all that share a word
        """
        if np.isnan(thresholds).any():
            raise ValueError("a threshold is not a number")
        again = []
        for segment in self.segments:
            rows, known = _find_rows(segment, keys)
            change_thresholds(segment, rows[known], thresholds[known].astype(np.float32, copy=False))
            if self.marks is not None:
                # Insert those again whose thresholds ask for more postings than they have; postings that are no longer
                # needed stay. Source: Skype, section 7.3.4 (lazy reallocation).
                lives = rows[known][segment.thresholds[rows[known]] > -np.inf]
                lacking = rows_without_postings(segment, lives, self.marks)
                again.append(take_subscriptions(segment, lacking))
                change_thresholds(segment, lacking, np.full(len(lacking), -np.inf, np.float32))
        for subscriptions in again:
            self.insert(subscriptions)

    def holds(self, keys: np.ndarray) -> np.ndarray:
        """Return which subscriptions (keys int64[n]) are in the index and not deleted: bool[n]."""
        lives = np.zeros(len(keys), bool)
        for segment in self.segments:
            lives |= _find_rows(segment, keys)[1]
        return lives

    def find_candidates(self, messages: Messages) -> Values:
        """Return each pair of a subscription and a message that share a word and whose value is at most the threshold.

        The value is the negative score, as questions compute it. Memory: 20 bytes a pair.
        """
        offsets = messages.offsets.astype(np.int64, copy=False)
        squares = sum_squares(offsets, np.arange(len(messages.terms)), messages.weights)
        points = np.column_stack([messages.lon, messages.lat]).astype(np.float64, copy=False)
        arrays = MessageArrays(points, squares, offsets, read_only(messages.terms))
        pairs = [(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))]
        for segment in self.segments:
            probes = list_probes(arrays, segment.table, segment.ids, segment.weights)
            rows, owners, values, _ = find_candidates(segment, arrays, probes)
            pairs.append((segment.keys[rows], owners, values))
        keys, rows, values = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
        return Values(keys, messages.key[rows], messages.ts[rows], values)


def _find_rows(segment: IndexArrays, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of each subscription in a segment, and whether it is there and not deleted: int64[n], bool[n]."""
    rows, known = find_among(keys, segment.keys)
    known[known] = segment.thresholds[rows[known]] > -np.inf
    return rows, known


LIST = "segments.json"

_mappings = KeptMappings[IndexArrays]()


def _made_by() -> list[str]:
    """Return what must be the same when a folder is read: the version of the kernels, and the start of the machine."""
    return [cache_folder().name, boot_identity().decode()]


class IndexFolder:
    """The folder of the index of one bucket or unit: a mapped file for each segment, and the list of them.

    The files are derived data. Thresholds change in place, so the list, which names the batch, is removed before the
    first change and written after the last: after a kill in between, or after a restart of the machine, which may have
    lost pages, the folder counts as empty, and the caller builds the index again.

    One process uses a folder at a time: the caller has the lock of the bucket (answers/bucket_file.py).

    started_at  start by the clock of the batch after which the opened index was written; 0: not recorded
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started_at = 0
        self._files: list[tuple[IndexArrays, str]] = []

    def open(self) -> tuple[ScoredIndex, int] | None:
        """Return the index and the batch after which it was written; None if it is missing, torn, or not whole."""
        try:
            written = json.loads((self.folder / LIST).read_bytes())
            if written["made_by"] != _made_by():
                return None
            self._files = [(self._map(name), name) for name in written["segments"]]
            self.started_at = int(written.get("started_at", 0))
            return ScoredIndex(segment for segment, _ in self._files), int(written["batch_id"])
        except (FileNotFoundError, TornFileError, ValueError, KeyError, TypeError):
            return None

    def begin_changes(self) -> None:
        """Record that the folder has the index of no batch, before the first change."""
        (self.folder / LIST).unlink(missing_ok=True)

    def write(self, index: ScoredIndex, batch_id: int, started_at: int = 0) -> None:
        """Record the index after a batch: write its new segments, map them, and delete the files of others.

        started_at: when the batch started by the clock
        """
        self.begin_changes()
        self.folder.mkdir(parents=True, exist_ok=True)
        known, self._files = self._files, []
        for position, segment in enumerate(index.segments):
            name = next((name for mapped, name in known if mapped is segment), None)
            if name is None:
                name = uuid.uuid4().hex
                write_arrays(self.folder / name, segment._asdict())
                segment = index.segments[position] = self._map(name)
            self._files.append((segment, name))
        names = [name for _, name in self._files]
        content = {"made_by": _made_by(), "batch_id": batch_id, "started_at": started_at, "segments": names}
        write_atomically(self.folder / LIST, json.dumps(content).encode(), durable=False)
        for file in self.folder.iterdir():
            if file.name not in (*names, LIST):
                file.unlink(missing_ok=True)

    def _map(self, name: str) -> IndexArrays:
        path = self.folder / name
        return _mappings.get(path, path.stat(), lambda: IndexArrays(**map_arrays(path, writable=True)))
