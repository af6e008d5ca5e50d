"""Declare the table of the plans of `topk` subscriptions."""

import pyarrow as pa

from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.state.table_types import Column, Table

TOPK_PLAN_TABLE = Table(
    names.TOPK_PLANS,
    "plans of topk subscriptions; topk_version of plans says which one is in force",
    (
        Column("plan_version", pa.int64(), "the plan version that was made for it"),
        Column("planner", pa.string(), "name of the planner"),
        Column("way", pa.string(), "what the first level divides: space_first, words_first"),
        Column("first", pa.int64(), "parts of the first level"),
        Column("second", pa.int64(), "parts of the second level in each; units = first x second"),
        Column("is_prefix", pa.bool_(), "whether subscriptions are held for the words of their loose prefixes alone"),
        Column("space_cuts", pa.list_(pa.float64()), "cuts of the kd-trees, one tree after the other, degrees"),
        Column("words", pa.list_(pa.int64()), "term ids, the least frequent in the sample first"),
        Column("word_cuts", pa.list_(pa.int64()), "first place in words of each run but the first, table by table"),
        Column("replication", pa.float64(), "units that hold a subscription of the sample, on average"),
        Column("copies", pa.float64(), "units that a message of the sample goes to, on average"),
        Column("unit_loads", pa.list_(pa.float64()), "cost of a message at each unit, predicted by the sample"),
        Column("options", pa.string(), "JSON: sample sizes, options of the planner"),
        Column("seconds", pa.float64(), "duration of planning"),
        Column("created_at", TIME, "when it was made"),
    ),
    ("plan_version",),
    writer="control",
    append_only=False,
)
