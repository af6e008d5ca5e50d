"""Read and append the delivery position of each sink, and dead letters (messages that a sink refused), in tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.utc_times import utc_now
from pststream.state import ledger_tables
from pststream.state.home import Home
from pststream.tables.delta_tables import greatest_value, latest_dataset, read_table
from pststream.tables.open_tables import latest_table

(OK, BEHIND), DOWN = names.UP_STATES, "down"
DEAD, DELIVERED = "dead", "delivered"
RECENT, WIDER = 1_000, 32
"""Number of last batches that are searched first for a sink's position, and the factor by which the search widens."""

COMPACT_FILES = 64
"""The table is compacted when it has more small files than this."""


@dataclass(frozen=True)
class SinkProgress:
    """Delivery position of a sink: all batches before `batch_id` and the first `position` messages of that batch are
    delivered or refused. The fields are columns of the table `deliveries`.
    """

    batch_id: int = 0
    position: int = 0
    complete: bool = True
    message_limit: int = 0
    limit_seconds: int = 1
    state: str = OK


@dataclass(frozen=True)
class Counts:
    """Messages and failures since the sink's previous row."""

    delivered: int = 0
    refused: int = 0
    failures: int = 0


def read_progress(home: Home, sink: str) -> SinkProgress:
    """Return the delivery position of a sink; of a new sink, the position before the first batch.

    Reads the end of the table, and more of it only for a sink whose last row is old.
    """
    mine, newest, span = pds.field("sink") == sink, greatest_value(home.table(names.DELIVERIES), "batch_id"), RECENT
    columns = ["batch_id", "position", "complete", "message_limit", "limit_seconds", "state", "written_at"]
    while not (
        rows := read_table(home.table(names.DELIVERIES), columns, mine & (pds.field("batch_id") > newest - span))
    ):
        if span > newest:
            return SinkProgress()
        span *= WIDER
    order = [(name, "ascending") for name in ("batch_id", "position", "complete", "written_at")]
    (last,) = rows.sort_by(order).drop_columns("written_at").slice(rows.num_rows - 1).to_pylist()
    return SinkProgress(**last)


def save_progress(home: Home, sink: str, progress: SinkProgress, counts: Counts, reason: str | None = None) -> None:
    """Append a sink's delivery position to the table."""
    row = {"sink": sink, **vars(progress), **vars(counts), "reason": reason, "written_at": utc_now()}
    ledger_tables.append(home, names.DELIVERIES, [row])


def compact_progress(home: Home) -> None:
    """Compact the table if it has many small files."""
    with latest_table(home.table(names.DELIVERIES)) as table:
        sizes = pa.table(table.get_add_actions()).column("size_bytes")
    if (pc.sum(pc.less(sizes, ledger_tables.COMPACTED_BYTES)).as_py() or 0) > COMPACT_FILES:
        ledger_tables.compact(home, names.DELIVERIES)


def save_dead_letters(home: Home, letters: Sequence[dict[str, Any]]) -> None:
    """Append messages that a sink refused: rows of `dead_letters` without `status` and `written_at`."""
    now = utc_now()
    ledger_tables.append(home, names.DEAD_LETTERS, [{**row, "status": DEAD, "written_at": now} for row in letters])


def mark_delivered(home: Home, letters: Sequence[dict[str, Any]]) -> None:
    """Append rows that say that these dead letters were delivered by a replay."""
    changes = {"status": DELIVERED, "message": None, "reason": None, "written_at": utc_now()}
    ledger_tables.append(home, names.DEAD_LETTERS, [row | changes for row in letters])


def dead_letters(home: Home, sink: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the dead letters that no replay has delivered, each once, in lists of at most 1,000, in no order.

    Keeps the ids of all dead letters in memory.
    """
    data = latest_dataset(home.table(names.DEAD_LETTERS))
    mine = pds.field("sink") == sink
    replayed = data.to_table(columns=["message_id"], filter=mine & (pds.field("status") == DELIVERED))
    seen = set(replayed.column(0).to_pylist())
    columns = ["sink", "message_id", "batch_id", "owner", "subscription_id", "kind", "reason", "message", "written_at"]
    for batch in data.to_batches(columns=columns, filter=mine & (pds.field("status") == DEAD), batch_size=1_000):
        letters = []
        for row in batch.to_pylist():
            if row["message_id"] not in seen:
                seen.add(row["message_id"])
                letters.append(row)
        if letters:
            yield letters


def count_dead(home: Home, sink: str) -> int:
    """Count the dead letters that no replay has delivered."""
    rows = read_table(home.table(names.DEAD_LETTERS), ["message_id", "status"], pds.field("sink") == sink)
    ids = rows.column("message_id")
    done = ids.filter(pc.equal(rows.column("status"), DELIVERED)).combine_chunks()
    return int(pc.count_distinct(ids.filter(pc.invert(pc.is_in(ids, value_set=pa.array(done, pa.string()))))).as_py())
