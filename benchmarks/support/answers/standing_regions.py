"""Write standing `frequent_terms` subscriptions about regions of cities into a home, as ingest would."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.support.object_worlds import HOUR_US
from benchmarks.support.question_sets import region_box
from pststream.base import names
from pststream.base.utc_times import to_micros
from pststream.pipeline.calibrate.synthetic_homes import START
from pststream.queries.kinds.frequent_terms import NAME
from pststream.state.data_files import ROW_GROUP, DataFile, FileWriter, commit_files
from pststream.state.home import Home
from pststream.state.tables import TABLES
from pststream.tables.ledgers import log_key
from pststream.workloads.places import city_places, scatter

K = 10
SHARE = 1e-4
"""Area of a region: a share of the space."""


class RegionSet(NamedTuple):
    """Regions around places that are distributed like objects: boxes float64[n,4], and the key of the last request."""

    boxes: np.ndarray
    last_key: int


def add_regions(home: Home, count: int, window_hours: int, seed: int, cuts: Sequence[int] = ()) -> RegionSet:
    """Append insertions of regions with a step of an hour, which live from the start of the world on.

    cuts: ascending numbers of regions after which another data file begins
    """
    lon, lat = scatter(np.random.default_rng([seed, 28]), city_places(), count)
    boxes = np.array([region_box(*place, SHARE) for place in zip(lon.tolist(), lat.tolist())])
    keys = log_key(1, 0) + 1 + np.arange(count)
    one_each = pa.array(np.arange(count + 1, dtype=np.int32))
    sides = dict(zip(("west", "south", "east", "north"), boxes.T))
    known = {
        "request_key": pa.array(keys),
        "op": pa.repeat("insert", count),
        "kind": pa.repeat(NAME, count),
        "owner": pa.repeat("", len(keys)),
        "subscription_id": pa.array(keys).cast(pa.string()),
        "subscription_key": pa.array(keys),
        "effective_at": pa.repeat(pa.scalar(to_micros(START), pa.int64()), count),
        "k": pa.array(np.full(count, K)),
        "window_us": pa.array(np.full(count, window_hours * HOUR_US)),
        "step_us": pa.array(np.full(count, HOUR_US)),
        **{side: pa.ListArray.from_arrays(one_each, pa.array(values)) for side, values in sides.items()},
        "ingest_id": pa.array(np.full(count, 1)),
    }
    schema = TABLES[names.REQUESTS].schema
    columns = [known.get(field.name, pa.nulls(count)).cast(field.type) for field in schema]
    rows, written = pa.Table.from_arrays(columns, schema=schema), list[DataFile]()
    for first, last in pairwise((0, *cuts, count)):
        writer = FileWriter(home.table(names.REQUESTS), schema)
        for part in rows.slice(first, last - first).to_batches(ROW_GROUP):
            writer.write(part)
        written += filter(None, [writer.close()])
    commit_files(home, names.REQUESTS, written, application="bench", transaction=1)
    return RegionSet(boxes, int(keys[-1]))
