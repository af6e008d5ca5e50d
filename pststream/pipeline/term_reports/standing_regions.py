"""Read the `frequent_terms` subscriptions of the request log, and when each of them ends."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream import names
from pststream.kinds.frequent_terms.kind import NAME
from pststream.shapes.registry import request_schema
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.state.tables import TABLES

_STORED = TABLES[names.REQUESTS].schema
_COLUMNS = ["request_key", "kind", "effective_at", "expires_at", "k", "window_us", "step_us", *request_schema().names]
_SCHEMA = pa.schema([_STORED.field(name) for name in _COLUMNS])


class StandingRegions(NamedTuple):
    """Insertions of `frequent_terms`; all have n rows. Travels pickled.

    regions      columns of shapes/registry.REQUEST_COLUMNS
    key          int64    request key
    k            int64
    window       int64    microseconds, as all times
    step         int64
    created_at   int64
    end_before   int64    end by the requests before the batch; names.NEVER_US: none
    end_after    int64    end by those of the batch too
    """

    regions: pa.RecordBatch
    key: np.ndarray
    k: np.ndarray
    window: np.ndarray
    step: np.ndarray
    created_at: np.ndarray
    end_before: np.ndarray
    end_after: np.ndarray

    def take(self, rows: np.ndarray) -> "StandingRegions":
        """Return some rows (int64[m]), without the memory of others."""
        return StandingRegions(self.regions.take(pa.array(rows)), *(values[rows] for values in self[1:]))


def read_standing_regions(home: Home, after: int, up_to: int) -> StandingRegions | None:
    """Return the subscriptions that requests up to a key insert, by ascending key; None if there is none.

    after: key of the last request before the batch
    """
    files = KeyRange("request_key", -1, up_to).files(list_data_files(home, names.REQUESTS))
    # Only rows of this kind have a step, and a file without a value has no bounds of the column.
    asked = [file for file in files if "step_us" in file.low]
    requests = KeyRange("request_key", -1, up_to)
    parts = (
        rows.filter(pc.equal(rows.column("kind"), NAME))
        for rows in read_slices(_slices(home, asked), _COLUMNS, requests)
    )
    stored = pa.Table.from_batches((part.cast(_SCHEMA) for part in parts), _SCHEMA).sort_by("request_key")
    if not stored.num_rows:
        return None
    (rows,) = stored.combine_chunks().to_batches()
    key = rows.column("request_key").to_numpy()
    expires = rows.column("expires_at").cast(pa.int64()).fill_null(names.NEVER_US).to_numpy()
    request, place, at = _deletions(home, files, key, requests)
    end_before, end_after = expires.copy(), expires.copy()
    for end, last in ((end_before, after), (end_after, up_to)):
        np.minimum.at(end, place[request <= last], at[request <= last])
    k, window, step = (rows.column(name).to_numpy() for name in ("k", "window_us", "step_us"))
    created = rows.column("effective_at").cast(pa.int64()).to_numpy()
    regions = rows.select(request_schema().names)
    return StandingRegions(regions, key, k, window, step, created, end_before, end_after)


def _deletions(
    home: Home, files: list[DataFile], key: np.ndarray, requests: KeyRange
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return request key, place in `key` and time of each deletion of one of these subscriptions: int64[n] each."""
    columns = ["request_key", "op", "subscription_key", "effective_at"]
    later = [file for file in files if file.may_contain("request_key", int(key[0]), names.NEVER_US)]
    parts = [np.empty((3, 0), np.int64)]
    for rows in read_slices(_slices(home, later), columns, requests):
        deleted = rows.filter(pc.equal(rows.column("op"), "delete"))
        own = deleted.column("subscription_key").to_numpy()
        place = np.minimum(np.searchsorted(key, own), len(key) - 1)
        at = deleted.column("effective_at").cast(pa.int64()).to_numpy()
        parts.append(np.stack([deleted.column("request_key").to_numpy(), place, at])[:, key[place] == own])
    request, places, times = np.concatenate(parts, axis=1)
    return request, places, times


def _slices(home: Home, files: list[DataFile]) -> list[Slice]:
    addresses = addresses_and_rows(home, names.REQUESTS, files)
    return [Slice(path, 0, names.NEVER_US, rows) for path, rows in addresses]
