"""Declare the tables of delivery: what each sink has received, and messages that it refused."""

import pyarrow as pa

from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.state.table_types import Column, Table

DELIVERY_TABLES = (
    Table(
        names.DELIVERIES,
        "delivery position of each sink, a row each time it is saved; the furthest position counts",
        (
            Column("sink", pa.string(), "its name"),
            Column("batch_id", pa.int64(), "the batch; all due batches before it are delivered"),
            Column("position", pa.int64(), "messages of the batch that are delivered or refused, in their order"),
            Column("complete", pa.bool_(), "the batch has no more messages"),
            Column("message_limit", pa.int64(), "limit of the batch's messages, see sinks; 0: none"),
            Column("limit_seconds", pa.int64(), "period of that limit"),
            Column("delivered", pa.int64(), "messages delivered since the sink's previous row"),
            Column("refused", pa.int64(), "messages that became dead letters since then"),
            Column("failures", pa.int64(), "tries that failed since then"),
            Column(
                "state",
                pa.string(),
                "ok, behind (delivery ran out of time), down, failed (an error of PSTStream), stuck (no answer)",
            ),
            Column("reason", pa.string(), "why it is down", True),
            Column("written_at", TIME, "when the row was written"),
        ),
        ("sink", "batch_id", "position", "written_at"),
        writer="control",
    ),
    Table(
        names.DEAD_LETTERS,
        "messages that a sink refused permanently; a row `delivered` supersedes other rows of its id",
        (
            Column("sink", pa.string(), "the sink that refused it"),
            Column("message_id", pa.string(), "id of the message"),
            Column("batch_id", pa.int64(), "batch of the message"),
            Column("subscription_id", pa.string(), "subscription of the message"),
            Column("kind", pa.string(), "matched, retracted, entered, left, report or digest"),
            Column("status", pa.string(), "dead, or delivered (by a replay)"),
            Column("reason", pa.string(), "why it was refused", True),
            Column("message", pa.string(), "the message as it is sent, JSON; null once it is delivered", True),
            Column("written_at", TIME, "when the row was written"),
        ),
        ("sink", "message_id", "status"),
        writer="control",
    ),
)
