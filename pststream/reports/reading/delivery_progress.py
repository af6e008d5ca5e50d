"""How far each sink was told: its furthest row of `deliveries`, the batches that wait for it, its dead letters."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pststream import names
from pststream.ledgers.history import LedgerHistory
from pststream.reports.reading.table_reader import Reader
from pststream.settings import load_settings
from pststream.utc_times import iso

REMOVED = "removed"
_ROW = ("sink", "batch_id", "position", "complete", "state", "reason", "at", "delivered", "refused", "failures")
_COUNTS = ("delivered", "refused", "failures")


def deliveries(reader: Reader, ledgers: LedgerHistory) -> list[dict[str, Any]]:
    """What is known of each sink that was ever told something, by name; the state of one that the settings do not name
    any more is `removed`, and nothing waits for it.
    """
    rows = reader.read(names.DELIVERIES, _ROW)
    sums = rows.group_by("sink").aggregate([(name, "sum") for name in _COUNTS]).to_pylist()
    order = [(name, "ascending") for name in ("batch_id", "position", "complete", "at")]
    ordered = rows.select(_ROW[:7]).sort_by(order)
    furthest = {row["sink"]: row for sink in sums for row in _last(ordered, sink["sink"])}
    dead, configured = _dead(reader), _configured(reader)
    done = ledgers.batches.column("batch_id")
    return [
        {
            "sink": counted["sink"],
            **{name: row[name] for name in ("state", "reason", "batch_id")},
            "at": iso(row["at"]),
            "batches_left": int(pc.sum(pc.greater_equal(done, row["batch_id"] + row["complete"])).as_py() or 0),
            **{name: counted[f"{name}_sum"] for name in _COUNTS},
            "dead": dead[counted["sink"]],
            **({} if counted["sink"] in configured else {"state": REMOVED, "reason": None, "batches_left": 0}),
        }
        for counted in sorted(sums, key=lambda found: str(found["sink"]))
        for row in [furthest[counted["sink"]]]
    ]


def _configured(reader: Reader) -> set[str]:
    """The sinks that the home's settings name."""
    return {sink.name for sink in load_settings(reader.home.path).sinks}


def _last(rows: pa.Table, sink: str) -> list[dict[str, Any]]:
    mine = rows.filter(pc.equal(rows.column("sink"), sink))
    last: list[dict[str, Any]] = mine.slice(mine.num_rows - 1).to_pylist()
    return last


def lines_of_deliveries(told: list[dict[str, Any]]) -> list[str]:
    """A line for each sink."""
    lines = []
    for place, sink in enumerate(told):
        left = f", {sink['batches_left']} batches behind" if sink["batches_left"] else ""
        dead = f", {sink['dead']:,} dead letters" if sink["dead"] else ""
        reason = f" ({sink['reason']}, {sink['at']})" if sink["reason"] else ""
        head = "delivery" if place == 0 else ""
        lines.append(f"{head:14} {sink['sink']}: {sink['state']}{reason}, {sink['delivered']:,} delivered{left}{dead}")
    return lines


def _dead(reader: Reader) -> Counter[str]:
    """Messages that are still dead, of each sink: those without a row `delivered`, which is the greater word."""
    rows = reader.read(names.DEAD_LETTERS, ("sink", "message_id", "status"))
    last = rows.group_by(["sink", "message_id"]).aggregate([("status", "max")])
    still = last.filter(pc.equal(last.column("status_max"), pa.scalar("dead"))) if last.num_rows else last
    return Counter(still.column("sink").to_pylist())
