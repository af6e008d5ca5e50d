"""How far each sink was told, and the messages that it refused for good."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import open_dataset, open_table
from pststream.state import ledger_tables
from pststream.state.home import Home

OK, BEHIND, DOWN = "ok", "behind", "down"
DEAD, DELIVERED = "dead", "delivered"
RECENT, WIDER = 1_000, 32
"""Batches in which a sink's place is looked for first, and how many times as many then."""

COMPACT_FILES = 64
"""As many small files of the table are joined into one."""


@dataclass(frozen=True)
class Progress:
    """How far a sink was told: all batches before `batch_id`, and `told` messages of it; see the table's columns."""

    batch_id: int = 0
    told: int = 0
    complete: bool = True
    limit: int = 0
    limit_seconds: int = 1
    state: str = OK


@dataclass(frozen=True)
class Counts:
    """What happened since a sink's row before."""

    delivered: int = 0
    refused: int = 0
    failures: int = 0


def progress_of(home: Home, sink: str) -> Progress:
    """How far a sink was told; nothing of it is known at first. Reads the recent end of the table, and more of it only
    for a sink that was not told anything for long.
    """
    mine, newest, span = pds.field("sink") == sink, ledger_tables.greatest(home, names.DELIVERIES, "batch_id"), RECENT
    columns = ["batch_id", "told", "complete", "limit", "limit_seconds", "state", "at"]
    while not (
        rows := ledger_tables.read(home, names.DELIVERIES, columns, mine & (pds.field("batch_id") > newest - span))
    ):
        if span > newest:
            return Progress()
        span *= WIDER
    order = [(name, "ascending") for name in ("batch_id", "told", "complete", "at")]
    (last,) = rows.sort_by(order).drop_columns("at").slice(rows.num_rows - 1).to_pylist()
    return Progress(**last)


def save_progress(home: Home, sink: str, progress: Progress, counts: Counts, reason: str | None = None) -> None:
    """Note how far a sink was told."""
    row = {"sink": sink, **vars(progress), **vars(counts), "reason": reason, "at": ledger_tables.now()}
    ledger_tables.append(home, names.DELIVERIES, [row])


def compact_progress(home: Home) -> None:
    """Join the table's small files when there are many."""
    sizes = pa.table(open_table(home.table(names.DELIVERIES)).get_add_actions()).column("size_bytes")
    if (pc.sum(pc.less(sizes, ledger_tables.JOINED_BYTES)).as_py() or 0) > COMPACT_FILES:
        ledger_tables.compact(home, names.DELIVERIES)


def bury(home: Home, letters: Sequence[dict[str, Any]]) -> None:
    """Keep messages that a sink refused: rows without `status` and `at`."""
    now = ledger_tables.now()
    ledger_tables.append(home, names.DEAD_LETTERS, [{**row, "status": DEAD, "at": now} for row in letters])


def raise_letters(home: Home, letters: Sequence[dict[str, Any]]) -> None:
    """Note that dead letters were delivered after all."""
    changes = {"status": DELIVERED, "message": None, "reason": None, "at": ledger_tables.now()}
    ledger_tables.append(home, names.DEAD_LETTERS, [row | changes for row in letters])


def dead_letters(home: Home, sink: str, rows: int = 1_000) -> Iterator[list[dict[str, Any]]]:
    """The messages that are still dead, each once, some at a time, in no order; holds the ids of all."""
    data = open_dataset(open_table(home.table(names.DEAD_LETTERS)))
    mine = pds.field("sink") == sink
    replayed = data.to_table(columns=["message_id"], filter=mine & (pds.field("status") == DELIVERED))
    gone = set(replayed.column(0).to_pylist())
    columns = ["sink", "message_id", "batch_id", "subscription_id", "kind", "reason", "message", "at"]
    for batch in data.to_batches(columns=columns, filter=mine & (pds.field("status") == DEAD), batch_size=rows):
        found = []
        for row in batch.to_pylist():
            if row["message_id"] not in gone:
                gone.add(row["message_id"])
                found.append(row)
        if found:
            yield found


def count_dead(home: Home, sink: str) -> int:
    """How many messages are still dead."""
    rows = ledger_tables.read(home, names.DEAD_LETTERS, ["message_id", "status"], pds.field("sink") == sink)
    ids = rows.column("message_id")
    done = ids.filter(pc.equal(rows.column("status"), DELIVERED)).combine_chunks()
    return int(pc.count_distinct(ids.filter(pc.invert(pc.is_in(ids, value_set=pa.array(done, pa.string()))))).as_py())
