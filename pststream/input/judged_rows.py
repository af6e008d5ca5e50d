"""Declare which columns of landed rows, stored rows and pairs a suite judges, and make pandas frames of them."""

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrow_columns import TIME

if TYPE_CHECKING:
    import pandas as pd


LANDED_OBJECTS, LANDED_REQUESTS = "landed_objects", "landed_requests"
OBJECTS, REQUESTS, PAIRS = "objects", "requests", "pairs"

SUBJECTS: dict[str, pa.Schema] = {
    LANDED_OBJECTS: pa.schema(
        [
            ("row", pa.int64()), ("object_id", pa.string()), ("ts", TIME), ("lon", pa.float64()),
            ("lat", pa.float64()), ("text", pa.string()),
        ]
    ),
    LANDED_REQUESTS: pa.schema(
        [
            ("row", pa.int64()), ("op", pa.string()), ("owner", pa.string()), ("subscription_id", pa.string()),
            ("kind", pa.string()), ("effective_at", TIME), ("expires_at", TIME), ("payload", pa.string()),
        ]
    ),
    OBJECTS: pa.schema(
        [
            ("object_key", pa.int64()), ("object_id", pa.string()), ("ts", TIME), ("lon", pa.float64()),
            ("lat", pa.float64()), ("text", pa.string()), ("ingest_id", pa.int64()),
        ]
    ),
    REQUESTS: pa.schema(
        [
            ("request_key", pa.int64()), ("op", pa.string()), ("owner", pa.string()), ("subscription_id", pa.string()),
            ("subscription_key", pa.int64()), ("kind", pa.string()), ("effective_at", TIME), ("expires_at", TIME),
            ("payload", pa.string()), ("ingest_id", pa.int64()),
        ]
    ),
    PAIRS: pa.schema(
        [
            ("object_key", pa.int64()), ("object_id", pa.string()), ("ts", TIME), ("subscription_key", pa.int64()),
            ("owner", pa.string()), ("subscription_id", pa.string()), ("payload", pa.string()),
            ("batch_id", pa.int64()), ("plan_version", pa.int64()), ("worker", pa.int64()),
        ]
    ),
}  # fmt: skip
"""The columns that suites judge, by the folder of the suites. `row` is the number of the row in its file."""

LANDED = {"objects": LANDED_OBJECTS, "requests": LANDED_REQUESTS}
"""The subject of a file's rows, by the kind of the file."""


def draw_places(count: int, limit: int, seed: str) -> np.ndarray | None:
    """Draw `limit` of `count` places at random, ascending, the same ones for a seed; None if all may be taken."""
    if count <= limit:
        return None
    generator = np.random.default_rng(int.from_bytes(sha256(seed.encode()).digest()))
    return np.sort(generator.choice(count, limit, replace=False, shuffle=False))


def make_frame(rows: pa.Table) -> "pd.DataFrame":
    """Return rows as pandas holds them; a text of white space only is null."""
    columns = [_without_blanks(rows.column(name)) for name in rows.schema.names]
    return pa.Table.from_arrays(columns, rows.schema.names).to_pandas()


def make_example(subject: str) -> "pd.DataFrame":
    """Return three rows on which an expectation that fits the columns can be computed."""
    examples: dict[Any, list[Any]] = {
        pa.int64(): [1, 2, 3],
        pa.float64(): [1.0, 2.5, None],
        pa.string(): ["one", "two", None],
        TIME: [1_700_000_000_000_000, 1_800_000_000_000_000, None],
    }
    schema = SUBJECTS[subject]
    return make_frame(pa.Table.from_pydict({field.name: examples[field.type] for field in schema}, schema=schema))


def _without_blanks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.type != pa.string():
        return column
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(column), ""), pa.scalar(None, pa.string()), column)
