"""Declare the tables of subscriptions with memory: what each batch changed in their answers, and snapshots of them."""

import pyarrow as pa

from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.state.table_types import Column, Table

_BUCKET = "bucket of the subscription, from 0; home.json has the number of buckets"
_VALUE = "knn: distance, metres; topk: negative score"

ANSWER_TABLES = (
    Table(
        names.ANSWER_LOG,
        "changes of answers (knn, topk) and of reports (frequent_terms), by batch. "
        "Each batch commits its changes of answers first, and its changes of reports in a second commit",
        (
            Column("batch_id", pa.int64(), "the batch"),
            Column("bucket", pa.int64(), _BUCKET),
            Column("part", pa.string(), "state, window: what the next batch needs; change: what readers see"),
            Column(
                "event",
                pa.string(),
                "state: entry (an object enters the buffer), threshold, or reset (a threshold; what was in the buffer"
                " before the batch is void); change: entered or left (the answer); window: boundary (the last"
                " object before the window of the `count` most recent ones, null: there is none)",
            ),
            Column("subscription_key", pa.int64(), "see requests"),
            Column("object_key", pa.int64(), "see objects; null: the row has none", True),
            Column("ts", TIME, "event time of the object; frequent_terms: the tick", True),
            Column("value", pa.float32(), f"{_VALUE}; threshold, reset: greatest value that the buffer keeps", True),
            Column("rank", pa.int32(), "from 1; entered: after the batch; left: before it", True),
            Column("term", pa.string(), "frequent_terms: a word", True),
            Column("count", pa.int64(), "frequent_terms: objects that have it", True),
        ),
        ("batch_id", "bucket", "event", "subscription_key", "object_key", "ts", "rank", "count"),
        partitions=("part",),
        append_only=False,
    ),
    Table(
        names.ANSWERS,
        "snapshots of the buffers of subscriptions with memory, by bucket; the greatest batch counts",
        (
            Column("batch_id", pa.int64(), "the last batch that the snapshot contains"),
            Column("bucket", pa.int64(), _BUCKET),
            Column("subscription_key", pa.int64(), "see requests"),
            Column("threshold", pa.float32(), "greatest value that the buffer keeps"),
            Column("limit_object_key", pa.int64(), "the last object that the buffer keeps; null: it keeps all", True),
            Column("limit_ts", TIME, "event time of that object", True),
            Column("object_key", pa.int64(), "see objects; null: the buffer is empty", True),
            Column("ts", TIME, "event time of the object", True),
            Column("value", pa.float32(), _VALUE, True),
        ),
        ("batch_id", "bucket", "subscription_key", "object_key"),
        append_only=False,
    ),
)
