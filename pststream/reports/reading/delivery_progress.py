"""Read the delivery progress of each sink from the tables: state, batches not delivered yet, dead letters."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pststream import names
from pststream.delta_tables import TableReader
from pststream.format_values import counted
from pststream.ledgers.history import LedgerHistory
from pststream.settings import load_settings
from pststream.utc_times import iso

REMOVED = "removed"
_ROW = ("sink", "batch_id", "position", "complete", "state", "reason", "written_at", "delivered", "refused", "failures")
_COUNTS = ("delivered", "refused", "failures")


def read_deliveries(reader: TableReader, ledgers: LedgerHistory) -> list[dict[str, Any]]:
    """Read the progress of each sink that ever had a delivery, ordered by name.

    A sink that the settings no longer name has the state `removed` and no batches left.
    """
    rows = reader.read(names.DELIVERIES, _ROW)
    sums = rows.group_by("sink").aggregate([(name, "sum") for name in _COUNTS]).to_pylist()
    order = [(name, "ascending") for name in ("batch_id", "position", "complete", "written_at")]
    ordered = rows.select(_ROW[:7]).sort_by(order)
    furthest = {row["sink"]: row for sink in sums for row in _last(ordered, sink["sink"])}
    dead, configured = _dead(reader), _configured(reader)
    done = ledgers.batches.column("batch_id")
    return [
        {
            "sink": sink["sink"],
            **{name: row[name] for name in ("state", "reason", "batch_id")},
            "at": iso(row["written_at"]),
            "batches_left": int(pc.sum(pc.greater_equal(done, row["batch_id"] + row["complete"])).as_py() or 0),
            **{name: sink[f"{name}_sum"] for name in _COUNTS},
            "dead": dead[sink["sink"]],
            **({} if sink["sink"] in configured else {"state": REMOVED, "reason": None, "batches_left": 0}),
        }
        for sink in sorted(sums, key=lambda row: str(row["sink"]))
        for row in [furthest[sink["sink"]]]
    ]


def _configured(reader: TableReader) -> set[str]:
    """The sinks that the home's settings name."""
    return {sink.name for sink in load_settings(reader.home.path).sinks}


def _last(rows: pa.Table, sink: str) -> list[dict[str, Any]]:
    mine = rows.filter(pc.equal(rows.column("sink"), sink))
    last: list[dict[str, Any]] = mine.slice(mine.num_rows - 1).to_pylist()
    return last


def render_deliveries(sinks: list[dict[str, Any]]) -> list[str]:
    """Render a line for each sink."""
    lines = []
    for place, sink in enumerate(sinks):
        left = f", {counted(sink['batches_left'], 'batch', 'batches')} behind" if sink["batches_left"] else ""
        dead = f", {counted(sink['dead'], 'dead letter')}" if sink["dead"] else ""
        reason = f" ({sink['reason']}, {sink['at']})" if sink["reason"] else ""
        head = "delivery" if place == 0 else ""
        lines.append(f"{head:14} {sink['sink']}: {sink['state']}{reason}, {sink['delivered']:,} delivered{left}{dead}")
    return lines


def _dead(reader: TableReader) -> Counter[str]:
    """Count the dead letters of each sink.

    A message is dead until it has a row `delivered`; the maximum status finds that, as 'delivered' > 'dead'.
    """
    rows = reader.read(names.DEAD_LETTERS, ("sink", "message_id", "status"))
    last = rows.group_by(["sink", "message_id"]).aggregate([("status", "max")])
    still = last.filter(pc.equal(last.column("status_max"), pa.scalar("dead"))) if last.num_rows else last
    return Counter(still.column("sink").to_pylist())
