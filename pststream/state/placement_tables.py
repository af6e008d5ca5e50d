"""Declare the tables of plans that share by subscription, the counts that they place by and what they have placed, and
of plans that share by object, their trees.
"""

import pyarrow as pa

from pststream.base import names
from pststream.state.table_types import IDS, Column, Table

PLACEMENT_TABLES = (
    Table(
        names.PLACEMENT_COUNTS,
        "objects of the sample of a plan that shares by subscription, by raster cell and term",
        (
            Column("plan_version", pa.int64(), "the plan"),
            Column(
                "term_id", pa.int64(), "see queries/text/tokenizer.py; the term of subscriptions without keywords: all"
            ),
            Column("cell", pa.int64(), "raster cell: row x columns + column"),
            Column("objects", pa.int64(), "sampled objects of the cell that have it"),
        ),
        ("plan_version", "term_id", "cell"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.PLACEMENTS,
        "loads by which a plan that shares by subscription places subscriptions, after each step that has placed some",
        (
            Column("plan_version", pa.int64(), "the plan that was made for the sample, see placement_version of plans"),
            Column("batch_id", pa.int64(), "the batch; 0: the index of the plan was built; -1: the plan was made"),
            Column(
                "step", pa.string(), "plan, rebuild; of a batch: requests, thresholds (knn, after their first batch)"
            ),
            Column(
                "present_to",
                pa.int64(),
                "greatest request_key when the plan was made; later subscriptions are new ones",
            ),
            Column("object_scale", pa.float64(), "stored objects for each sampled one"),
            Column("loads", pa.list_(pa.float64()), "cost of the subscriptions of each unit, in sampled objects"),
            Column("areas", pa.int64(), "rows of placement_areas so far"),
        ),
        ("plan_version", "batch_id", "step"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.PLAN_NODES,
        "the tree of each plan that divides objects by text, or whose planner made it as a tree",
        (
            Column("plan_version", pa.int64(), "the plan"),
            Column("node", pa.int64(), "from 0, the root; parents before their children"),
            Column("parent", pa.int64(), "the node above; null: the root", True),
            Column("first_column", pa.int64(), "of its rectangle of raster cells"),
            Column("first_row", pa.int64(), "of its rectangle, from the south"),
            Column("last_column", pa.int64(), "of its rectangle"),
            Column("last_row", pa.int64(), "of its rectangle"),
            Column("by_text", pa.bool_(), "whether its children share its rectangle and divide its objects by text"),
            Column("unit", pa.int64(), "the unit of a leaf; null: it has children", True),
            Column("objects", pa.int64(), "objects of the sample that came to it"),
            Column("terms", IDS, "keywords of queries in its rectangle, ascending; null: not by_text", True),
            Column("asked", pa.list_(pa.int64()), "for each of terms, the queries that have it", True),
            Column(
                "holders",
                pa.list_(pa.int64()),
                "for each of terms, bit c is set if the keyword list of child c has it",
                True,
            ),
            Column("queries", pa.list_(pa.int64()), "of the root: number of queries with 0, 1, .. keywords", True),
        ),
        ("plan_version", "node"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.PLACEMENT_AREAS,
        "areas of the parts in which a plan of dkm_sks has placed the subscriptions that were present, as raster cells",
        (
            Column("plan_version", pa.int64(), "see placements"),
            Column("number", pa.int64(), "from 0, in the order of assignment"),
            Column("first_column", pa.int32(), "column of the first raster cell"),
            Column("first_row", pa.int32(), "its row"),
            Column("last_column", pa.int32(), "column of the last raster cell"),
            Column("last_row", pa.int32(), "its row"),
        ),
        ("plan_version", "number"),
        writer="control",
        append_only=False,
    ),
)
