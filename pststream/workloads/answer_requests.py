"""Turn generated range requests into requests of a kind with memory: knn, topk or frequent_terms.

knn             1 to 5 words joined by OR, k from 1 to 10 (DkM-SKS section 5)
topk            1 to 5 words, k = 20, alpha uniform, a window of 1,000,000 objects (Skype section 8)
frequent_terms  k = 10, a window of 72 hours, a step of 1 hour (SSTD section 6.3)

A point is the centre of the region, which is drawn around a point of an object.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.workloads.draw_subscriptions import SubscriptionStyle

STYLES = {
    "knn": SubscriptionStyle(connective="or", keywords=(1, 5)),
    "topk": SubscriptionStyle(connective="and", keywords=(1, 5)),
    "frequent_terms": SubscriptionStyle(),
}
"""How the words and regions of each kind are drawn."""

MOST_K = 10
TOPK_K = 20
WINDOW_OBJECTS = 1_000_000

_POINT = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
_SHARED = [("op", pa.string()), ("subscription_id", pa.string()), ("kind", pa.string())]
_TIMES = [("created_at", pa.string()), ("at", pa.string())]
_FIELDS = {
    "knn": [("keywords", pa.string()), ("point", _POINT), ("k", pa.int64())],
    "topk": [
        *[("keywords", pa.string()), ("point", _POINT), ("k", pa.int64()), ("alpha", pa.float64())],
        ("window", pa.struct([("objects", pa.int64())])),
    ],
    "frequent_terms": [
        *[("bbox", pa.list_(pa.float64())), ("k", pa.int64()), ("window", pa.string()), ("step", pa.string())],
    ],
}
SCHEMAS = {kind: pa.schema([*_SHARED, *fields, *_TIMES]) for kind, fields in _FIELDS.items()}
"""The fields of the requests of each kind."""


def as_kind(requests: pa.Table, kind: str, rng: np.random.Generator) -> pa.Table:
    """Return range requests (generated_requests.SCHEMA) as requests of a kind (SCHEMAS); deletions stay."""
    inserted = pc.equal(requests.column("op"), "insert")
    count = requests.num_rows
    words = pc.replace_substring(requests.column("keywords"), " AND ", " ")
    k = {"knn": rng.integers(1, MOST_K + 1, count), "topk": np.full(count, TOPK_K)}.get(kind, np.full(count, MOST_K))
    window: pa.Array = pa.repeat(pa.scalar("72h"), count)
    if kind == "topk":
        window = pa.StructArray.from_arrays([pa.array(np.full(count, WINDOW_OBJECTS))], names=["objects"])
    fields = {
        "kind": pa.repeat(pa.scalar(kind), count),
        "keywords": words if kind == "topk" else requests.column("keywords"),
        "point": _centres(requests.column("bbox").combine_chunks()),
        "k": pa.array(k),
        "alpha": pa.array(np.round(rng.random(count), 6)),
        "window": window,
        "step": pa.repeat(pa.scalar("1h"), count),
    }
    columns = [
        pc.if_else(inserted, fields[field.name], pa.scalar(None, field.type))
        if field.name in fields
        else requests.column(field.name)
        for field in SCHEMAS[kind]
    ]
    return pa.table(columns, schema=SCHEMAS[kind])


def _centres(boxes: pa.ListArray) -> pa.Array:
    """Return the centres of boxes (west, south, east, north); of a null, any point."""
    sides = np.zeros((len(boxes), 4))
    given = boxes.is_valid().to_numpy(zero_copy_only=False)
    sides[given] = boxes.drop_null().flatten().to_numpy().reshape(-1, 4)
    west, south, east, north = sides.T
    lon = west + np.mod(east - west, 360.0) / 2
    lon = np.where(lon > 180.0, lon - 360.0, lon)
    return pa.StructArray.from_arrays(
        [pa.array(np.round(lon, 6)), pa.array(np.round((south + north) / 2, 6))], fields=list(_POINT)
    )
