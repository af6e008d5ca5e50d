"""Read the `frequent_terms` subscriptions of the request log, and when each of them ends, in the tasks that count.

The driver knows data files alone. Arrays of a group of files are in the node's cache. Subscriptions are there in the
order of their regions on a curve, so that a share of them has neighbours, which are counted together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import concatenate_ranges
from pststream.base.arrow_columns import integers, utf8_of
from pststream.kernels.questions.codes import place_codes
from pststream.kernels.questions.question_arrays import RegionArrays
from pststream.pipeline.index.build_index import ending_requests
from pststream.queries.kinds.contract import STOP_WORDS
from pststream.queries.kinds.frequent_terms import NAME
from pststream.queries.shapes.registry import request_schema
from pststream.search.object_cache import group_request_files
from pststream.search.question_batch import concatenate_regions, cut_region_arrays, take_regions
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, read_slices, whole_file
from pststream.state.tables import TABLES
from pststream.storage.array_cache import ArrayCache, Paths

LAYOUT = "regions-2"
"""Name and version of the arrays in the node's cache."""

_STORED = TABLES[names.REQUESTS].schema
_NUMBERS = ("request_key", "effective_at", "expires_at", "k", "window_us", "step_us")
_INSERTED = pa.schema([*(_STORED.field(name) for name in (*_NUMBERS, STOP_WORDS.name)), *request_schema()])
_DELETED = ("subscription_key", "request_key", "effective_at")


class StandingRegions(NamedTuple):
    """Insertions of `frequent_terms`; all have n rows.

    regions      their pieces
    key          int64    request key
    k            int64
    most         int64    k, and the number of its stop words
    stop_words   object   texts, None: none (search/answerers.read_stop_words)
    window       int64    microseconds, as all times
    step         int64
    created_at   int64
    end_before   int64    end by the requests before the batch; names.NEVER_US: none
    end_after    int64    end by those of the batch too
    """

    regions: RegionArrays
    key: np.ndarray
    k: np.ndarray
    most: np.ndarray
    stop_words: np.ndarray
    window: np.ndarray
    step: np.ndarray
    created_at: np.ndarray
    end_before: np.ndarray
    end_after: np.ndarray


class RegionShare(NamedTuple):
    """Some subscriptions of a group of data files: those with places from `first` to before `stop` in its arrays."""

    group: int
    first: int
    stop: int


@dataclass(frozen=True)
class RegionLog:
    """The `frequent_terms` subscriptions up to the end of a batch; small, since it travels with every task.

    groups         data files of `requests` from the first with such a subscription on
    counts         such subscriptions in each group; those of later batches too
    after, up_to   keys of the last request before the batch and of its last one
    cache_dir, cache_bytes   as `task_context.cache_place` returns them
    """

    groups: tuple[Paths, ...]
    counts: tuple[int, ...]
    after: int
    up_to: int
    cache_dir: str
    cache_bytes: int

    def divide(self, most: int) -> list[tuple[RegionShare, ...]]:
        """Return the subscriptions in lists of shares of `most` subscriptions together; the last may have fewer.

        What a task does once, whatever its regions, is so done for many of them, also of small groups of files.
        """
        ends = np.append(0, np.cumsum(self.counts)).tolist()
        divided = []
        for first in range(0, ends[-1], most):
            spans = (
                RegionShare(group, max(first, begin) - begin, min(first + most, end) - begin)
                for group, (begin, end) in enumerate(pairwise(ends))
            )
            divided.append(tuple(share for share in spans if share.first < share.stop))
        return divided

    def read(self, shares: Sequence[RegionShare]) -> StandingRegions:
        """Return the subscriptions of at least one share, without those of later batches; a node without the arrays
        makes them.
        """
        parts = list(map(self._read, shares))
        columns = zip(*(part[1:] for part in parts), strict=True)
        regions = concatenate_regions([part.regions for part in parts])
        return StandingRegions(regions, *(np.concatenate(column) for column in columns))

    def _read(self, share: RegionShare) -> StandingRegions:
        arrays = self._arrays(share.group)
        rows = share.first + np.flatnonzero(arrays["key"][share.first : share.stop] <= self.up_to)
        key, expires_at = arrays["key"][rows], arrays["expires_at"][rows]
        end_before, end_after = expires_at.copy(), expires_at.copy()
        for request, position, at in self._deletions(key):
            for end, last in ((end_before, self.after), (end_after, self.up_to)):
                np.minimum.at(end, position[request <= last], at[request <= last])
        regions = take_regions(RegionArrays(*(arrays[name] for name in RegionArrays._fields)), rows)
        k, window, step, created_at = (arrays[name][rows] for name in ("k", "window", "step", "created_at"))
        stop_words, most = _take_stop_words(arrays, rows)
        return StandingRegions(regions, key, k, k + most, stop_words, window, step, created_at, end_before, end_after)

    def _deletions(self, key: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield request key, place in `key` (int64[n]) and time of deletions of subscriptions: int64[m] each."""
        for group in range(len(self.groups)):
            arrays = self._arrays(group)
            low, high = (np.searchsorted(arrays["deleted_key"], key, side) for side in ("left", "right"))
            rows = concatenate_ranges(low, high - low)
            position = np.repeat(np.arange(len(key)), high - low)
            yield arrays["deleted_request"][rows], position, arrays["deleted_at"][rows]

    def _arrays(self, group: int) -> dict[str, np.ndarray]:
        paths = self.groups[group]
        return _region_cache(self.cache_dir, self.cache_bytes).arrays(paths, partial(_build, paths))


def list_regions(home: Home, after: int, up_to: int, cache_dir: str, cache_bytes: int) -> RegionLog | None:
    """Return the subscriptions that requests up to a key insert; None if there is none. For the others: RegionLog."""
    files = KeyRange("request_key", -1, up_to).files(list_data_files(home, names.REQUESTS))
    with_regions = [file for file in files if _count_regions(file)]
    if not with_regions:
        return None
    # A deletion has a greater key than the insertion.
    least = min(file.low.get("request_key", -1) for file in with_regions)
    files = KeyRange("request_key", least - 1, names.MAX_INT64).files(files)
    addresses = addresses_and_rows(home, names.REQUESTS, files)
    groups = group_request_files(files, addresses)
    counts = {address: _count_regions(file) for file, (address, _) in zip(files, addresses, strict=True)}
    of_groups = tuple(sum(counts[path] for path in paths) for paths in groups)
    return RegionLog(groups, of_groups, after, up_to, cache_dir, cache_bytes)


def _count_regions(file: DataFile) -> int:
    """Return how many rows of a file are of this kind: only these have a step."""
    return file.rows - file.nulls.get("step_us", 0) if "step_us" in file.low else 0


@lru_cache(maxsize=4)
def _region_cache(folder: str, max_bytes: int) -> ArrayCache:
    return ArrayCache(folder, max_bytes, LAYOUT)


def _build(paths: Paths) -> dict[str, np.ndarray]:
    """Return the arrays of a group of data files: insertions by place, deletions by the key of their subscription."""
    inserted, deleted = [], []
    columns = ["op", "kind", "subscription_key", "replaced_key", *_INSERTED.names]
    for rows in read_slices([whole_file(path) for path in paths], columns):
        own = rows.filter(pc.equal(rows.column("kind"), NAME))
        inserted.append(own.select(_INSERTED.names).cast(_INSERTED))
        deleted.append(ending_requests(rows).select(_DELETED))
    schema = pa.schema([_STORED.field(name) for name in _DELETED])
    rows = pa.Table.from_batches([part.cast(schema) for part in deleted], schema).sort_by("subscription_key")
    key, request, at = (integers(rows, name) for name in _DELETED)
    deletions = {"deleted_key": key, "deleted_request": request, "deleted_at": at}
    return _insertions(pa.Table.from_batches(inserted, _INSERTED)) | deletions


def _insertions(rows: pa.Table) -> dict[str, np.ndarray]:
    (batch,) = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], _INSERTED)]
    regions = cut_region_arrays(batch.select(request_schema().names))
    boxes = regions.boxes[regions.piece_offsets[:-1]]
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    order = np.argsort(place_codes(middles[:, 0], middles[:, 1]), kind="stable")
    lists = batch.column(STOP_WORDS.name).dictionary_encode()
    data, offsets = utf8_of(lists.dictionary)
    texts = {"list_bytes": data[offsets[0] : offsets[-1]], "list_offsets": offsets - offsets[0]}
    arrays = {
        "list": lists.indices.fill_null(-1).to_numpy().astype(np.int64),
        "key": integers(batch, "request_key"),
        "k": integers(batch, "k"),
        "window": integers(batch, "window_us"),
        "step": integers(batch, "step_us"),
        "created_at": integers(batch, "effective_at"),
        "expires_at": integers(batch, "expires_at", names.NEVER_US),
    }
    return {name: values[order] for name, values in arrays.items()} | texts | take_regions(regions, order)._asdict()


def _take_stop_words(arrays: dict[str, np.ndarray], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the texts of the stop words of some insertions, object[n], and the number of words of each, int64[n]."""
    offsets = arrays["list_offsets"]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(arrays["list_bytes"])]
    lists = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
    # The last one stands for no words.
    texts = np.array([*lists.to_pylist(), None], object)
    sizes = np.append(pc.count_substring(lists, " ").to_numpy().astype(np.int64) + 1, 0)
    return texts[arrays["list"][rows]], sizes[arrays["list"][rows]]
