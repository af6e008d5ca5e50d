"""Read how large the answers of subscriptions with memory are: rows of `answer_log` and of the last snapshot.

The sizes come from the logs of the tables and from the ledger of batches; no data file is read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pststream import names
from pststream.delta_tables import TableReader
from pststream.domain.arrow_columns import sum_column
from pststream.format_values import byte_size, counted
from pststream.ledgers.history import LedgerHistory
from pststream.utc_times import iso


def read_answer_sizes(reader: TableReader, ledgers: LedgerHistory) -> dict[str, Any]:
    """Return {"stream_time", "log": {part: {"files", "rows", "bytes"}}, "snapshot": {"batch_id", "rows", "bytes"}}.

    stream_time: that of the last batch, ISO 8601 in UTC; None without objects. snapshot: None if there is none.
    """
    times = ledgers.batches.column("stream_time")
    log = _files(reader, names.ANSWER_LOG)
    parts = log.column("partition.part").to_pylist() if log.num_rows else []
    return {
        "stream_time": iso(times[-1].as_py()) if len(times) else None,
        "log": {part: _size(log.filter(pc.equal(log.column("partition.part"), part))) for part in sorted(set(parts))},
        "snapshot": _last_snapshot(_files(reader, names.ANSWERS)),
    }


def _files(reader: TableReader, name: str) -> pa.Table:
    return pa.table(reader.table(name).get_add_actions(flatten=True))


def _last_snapshot(files: pa.Table) -> dict[str, Any] | None:
    if not files.num_rows:
        return None
    last = pc.max(files.column("max.batch_id"))
    size = _size(files.filter(pc.equal(files.column("max.batch_id"), last)))
    return {"batch_id": last.as_py(), "rows": size["rows"], "bytes": size["bytes"]}


def _size(files: pa.Table) -> dict[str, int]:
    rows, size = (sum_column(files, name) for name in ("num_records", "size_bytes"))
    return {"files": files.num_rows, "rows": rows, "bytes": size}


def render_answer_sizes(
    answers: Mapping[str, Any], totals: Mapping[str, Any], batches: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Render the sizes as lines; none for a home without answers."""
    if not answers["log"] and not any(totals["changes"].values()):
        return []
    rows, size = (sum(part[name] for part in answers["log"].values()) for name in ("rows", "bytes"))
    stream_time = answers["stream_time"] or "-"
    lines = [
        f"answers        {_by_kind(totals['changes'], 'change')}; stream time {stream_time}",
        f"               log {counted(rows, 'row')}, {byte_size(size)}; {_describe_snapshot(answers['snapshot'])}",
    ]
    done = [batch for batch in batches if batch["status"] == "done"]
    if done:
        last = done[-1]
        figures = (("candidates", "candidate"), ("changes", "change"), ("evaluations", "evaluation"))
        texts = "; ".join(_by_kind(last[name], noun) for name, noun in figures)
        lines.append(f"               batch {last['batch_id']}: {texts}")
    return lines


def _describe_snapshot(snapshot: Mapping[str, Any] | None) -> str:
    if snapshot is None:
        return "no snapshot; pststream maintain writes one"
    return (
        f"snapshot of batch {snapshot['batch_id']}: {counted(snapshot['rows'], 'row')}, {byte_size(snapshot['bytes'])}"
    )


def _by_kind(counts: Mapping[str, int], noun: str) -> str:
    total = counted(sum(counts.values()), noun)
    return f"{total} ({', '.join(f'{count:,} {kind}' for kind, count in counts.items())})" if counts else total
